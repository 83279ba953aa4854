#pragma once

#include <cstdint>

#include "ulmus/base/check.h"
#include "ulmus/tensor/tensor_view.h"

namespace ulmus::ops::cpu {

/// Elements below which waking another thread costs more than it saves (a few microseconds).
inline constexpr std::int64_t kMinElements = 8192;

/// Least rows of `width` elements for one thread.
inline std::int64_t row_grain(std::int64_t width) {
  const std::int64_t rows = kMinElements / (width > 0 ? width : 1);
  return rows > 0 ? rows : 1;
}

/// A count that lives on the device, or all rows when it is not given.
inline std::int64_t rows_in_use(const ConstTensorView& row_count, std::int64_t capacity) {
  if (row_count.is_empty()) return capacity;
  const std::int64_t count = *row_count.data<std::int32_t>();
  ULMUS_DCHECK(count >= 0 && count <= capacity, "row count ", count, " of ", capacity, " rows");
  return count;
}

}  // namespace ulmus::ops::cpu
