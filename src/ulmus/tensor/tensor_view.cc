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
