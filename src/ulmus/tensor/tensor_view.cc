#include "ulmus/tensor/tensor_view.h"

#include <algorithm>

namespace ulmus::detail {

namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

}  // namespace

ViewLayout::ViewLayout(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides_[at(axis)] = step;
    step *= shape.dim(axis);
  }
}

std::int64_t ViewLayout::stride(int axis) const {
  ULMUS_CHECK(0 <= axis && axis < rank(), "axis ", axis, " of ", shape_);
  return strides_[at(axis)];
}

bool ViewLayout::is_contiguous() const {
  std::int64_t step = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (dim(axis) != 1 && strides_[at(axis)] != step) return false;
    step *= dim(axis);
  }
  return true;
}

ViewLayout ViewLayout::sliced(int axis, std::int64_t begin, std::int64_t end) const {
  ULMUS_CHECK(0 <= begin && begin <= end && end <= dim(axis), "slice ", begin, "..", end,
              " of axis ", axis, " of ", shape_);
  ViewLayout layout = *this;
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::copy(shape_.dims().begin(), shape_.dims().end(), dims.begin());
  dims[at(axis)] = end - begin;
  layout.shape_ = Shape(std::span<const std::int64_t>(dims.data(), at(rank())));
  return layout;
}

ViewLayout ViewLayout::reshaped(const Shape& shape) const {
  ULMUS_CHECK(is_contiguous(), "reshape of a view with gaps: ", shape_);
  ULMUS_CHECK(shape.numel() == numel(), "reshape of ", shape_, " to ", shape);
  return {dtype_, shape};
}

ViewLayout ViewLayout::reinterpreted(DType dtype, const Shape& shape) const {
  ULMUS_CHECK(is_contiguous() && shape.numel() * size_of(dtype) == size_bytes(), shape_, " of ",
              dtype_, " as ", shape, " of ", dtype);
  return {dtype, shape};
}

ViewLayout ViewLayout::with_split_last(std::int64_t parts) const {
  const int last = rank() - 1;
  ULMUS_CHECK(rank() >= 1 && rank() < Shape::kMaxRank && parts > 0 && dim(last) % parts == 0,
              "split of the last axis of ", shape_, " in ", parts, " parts");
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::copy(shape_.dims().begin(), shape_.dims().end(), dims.begin());
  const std::int64_t width = dim(last) / parts;
  dims[at(last)] = parts;
  dims[at(last + 1)] = width;
  ViewLayout layout = *this;
  layout.shape_ = Shape(std::span<const std::int64_t>(dims.data(), at(rank() + 1)));
  layout.strides_[at(last)] = width;
  layout.strides_[at(last + 1)] = 1;
  return layout;
}

std::int64_t ViewLayout::offset_bytes(int axis, std::int64_t index) const {
  return stride(axis) * index * size_of(dtype_);
}

}  // namespace ulmus::detail

namespace ulmus {

namespace {

/// Bytes from the first element of a window to the end of its last.
std::int64_t span_bytes(const ConstTensorView& view) {
  std::int64_t last = 0;
  for (int axis = 0; axis < view.rank(); ++axis)
    last += (view.dim(axis) - 1) * view.stride(axis);
  return (last + 1) * size_of(view.dtype());
}

/// Bytes from one row (outermost index) to the next, 0 when the inner axes have gaps of their own.
std::int64_t row_stride_bytes(const ConstTensorView& view) {
  if (view.rank() < 2) return 0;
  std::int64_t step = 1;
  for (int axis = view.rank() - 1; axis > 0; --axis) {
    if (view.dim(axis) != 1 && view.stride(axis) != step) return 0;
    step *= view.dim(axis);
  }
  return view.stride(0) * size_of(view.dtype());
}

}  // namespace

bool overlaps(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto a_begin = reinterpret_cast<std::intptr_t>(a.raw_data());
  const auto b_begin = reinterpret_cast<std::intptr_t>(b.raw_data());
  if (a_begin + span_bytes(a) <= b_begin || b_begin + span_bytes(b) <= a_begin) return false;
  const std::int64_t stride = row_stride_bytes(a);
  if (stride == 0 || stride != row_stride_bytes(b)) return true;
  // Where b's columns begin, counted from a's, modulo the row.
  const std::int64_t gap = ((b_begin - a_begin) % stride + stride) % stride;
  const std::int64_t a_width = a.numel() / a.dim(0) * size_of(a.dtype());
  const std::int64_t b_width = b.numel() / b.dim(0) * size_of(b.dtype());
  return gap < a_width || gap + b_width > stride;
}

bool is_same_window(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.raw_data() != b.raw_data() || a.dtype() != b.dtype() || a.shape() != b.shape()) {
    return false;
  }
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

}  // namespace ulmus
