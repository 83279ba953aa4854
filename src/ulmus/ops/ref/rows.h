#pragma once

#include "ulmus/tensor/tensor_view.h"

namespace ulmus::ops::ref {

/// Address of a row; rows may have gaps.
template <class T>
const T* row(const ConstTensorView& view, std::int64_t index) {
  return view.data<T>() + index * view.stride(0);
}
template <class T>
T* row(const TensorView& view, std::int64_t index) {
  return view.data<T>() + index * view.stride(0);
}

/// sum_i a[i] b[i] in double
template <class T>
double dot(const T* a, const T* b, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// A count that lives on the device, or all rows when it is not given.
inline std::int64_t rows_in_use(const ConstTensorView& row_count, std::int64_t capacity) {
  if (row_count.is_empty()) return capacity;
  const std::int64_t count = *row_count.data<std::int32_t>();
  ULMUS_DCHECK(0 <= count && count <= capacity, "row count ", count, " of ", capacity);
  return count;
}

}  // namespace ulmus::ops::ref
