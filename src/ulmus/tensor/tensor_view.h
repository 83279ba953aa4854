#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ulmus/base/check.h"
#include "ulmus/tensor/dtype.h"
#include "ulmus/tensor/shape.h"

namespace ulmus {

namespace detail {

/// What both views share: element type, shape and strides. The last axis is always contiguous
/// (stride 1); outer axes may have gaps (columns of a packed matrix).
class ViewLayout {
 public:
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int axis) const { return shape_.dim(axis); }
  std::int64_t numel() const { return shape_.numel(); }
  std::int64_t size_bytes() const { return numel() * size_of(dtype_); }
  /// Elements between neighbours along an axis.
  std::int64_t stride(int axis) const;
  /// No gaps: elements lie row after row.
  bool is_contiguous() const;

 protected:
  ViewLayout() = default;
  ViewLayout(DType dtype, const Shape& shape);
  ViewLayout sliced(int axis, std::int64_t begin, std::int64_t end) const;
  ViewLayout reshaped(const Shape& shape) const;
  ViewLayout with_split_last(std::int64_t parts) const;
  ViewLayout reinterpreted(DType dtype, const Shape& shape) const;
  std::int64_t offset_bytes(int axis, std::int64_t index) const;

 private:
  DType dtype_ = DType::kF32;
  Shape shape_{0};
  std::array<std::int64_t, Shape::kMaxRank> strides_{1, 0, 0, 0};
};

}  // namespace detail

/// A window on device memory that may be written. Copies are shallow. Only operation kernels and
/// devices may look at the memory itself (`data<T>()`, design law 4; tools/check_layers.py).
class TensorView;

/// A window on device memory that may be read.
class ConstTensorView : public detail::ViewLayout {
 public:
  /// The empty view: shape [0].
  ConstTensorView() = default;
  ConstTensorView(const void* data, DType dtype, const Shape& shape)
      : ViewLayout(dtype, shape), data_(static_cast<const std::byte*>(data)) {}

  /// True for the default view, which stands for "not given".
  bool is_empty() const { return data_ == nullptr; }
  /// Address of the first element; checks the element type.
  template <class T>
  const T* data() const {
    ULMUS_CHECK(kDTypeOf<T> == dtype(), "tensor of ", dtype(), " read as ", kDTypeOf<T>);
    return reinterpret_cast<const T*>(data_);
  }
  const void* raw_data() const { return data_; }

  /// Rows [begin, end) of axis 0.
  ConstTensorView rows(std::int64_t begin, std::int64_t end) const { return narrow(0, begin, end); }
  /// [begin, end) of one axis.
  ConstTensorView narrow(int axis, std::int64_t begin, std::int64_t end) const {
    return {data_ + offset_bytes(axis, begin), sliced(axis, begin, end)};
  }
  /// Same elements in another shape; the view must be contiguous.
  ConstTensorView reshape(const Shape& shape) const { return {data_, reshaped(shape)}; }
  /// Last axis [parts * P] as two axes [parts, P]; outer gaps stay.
  ConstTensorView split_last(std::int64_t parts) const { return {data_, with_split_last(parts)}; }
  /// The same bytes as elements of another type: for parts of one buffer with several types. The
  /// view must be contiguous and the sizes in bytes equal.
  ConstTensorView reinterpret(DType dtype, const Shape& shape) const {
    return {data_, reinterpreted(dtype, shape)};
  }

 private:
  friend class TensorView;
  ConstTensorView(const std::byte* data, const ViewLayout& layout)
      : ViewLayout(layout), data_(data) {}
  const std::byte* data_ = nullptr;
};

class TensorView : public detail::ViewLayout {
 public:
  TensorView() = default;
  TensorView(void* data, DType dtype, const Shape& shape)
      : ViewLayout(dtype, shape), data_(static_cast<std::byte*>(data)) {}

  // NOLINTNEXTLINE(google-explicit-constructor): a writable view is also a readable one
  operator ConstTensorView() const { return {data_, static_cast<const ViewLayout&>(*this)}; }

  bool is_empty() const { return data_ == nullptr; }
  template <class T>
  T* data() const {
    ULMUS_CHECK(kDTypeOf<T> == dtype(), "tensor of ", dtype(), " used as ", kDTypeOf<T>);
    return reinterpret_cast<T*>(data_);
  }
  void* raw_data() const { return data_; }

  TensorView rows(std::int64_t begin, std::int64_t end) const { return narrow(0, begin, end); }
  TensorView narrow(int axis, std::int64_t begin, std::int64_t end) const {
    return {data_ + offset_bytes(axis, begin), sliced(axis, begin, end)};
  }
  TensorView reshape(const Shape& shape) const { return {data_, reshaped(shape)}; }
  TensorView split_last(std::int64_t parts) const { return {data_, with_split_last(parts)}; }
  TensorView reinterpret(DType dtype, const Shape& shape) const {
    return {data_, reinterpreted(dtype, shape)};
  }

 private:
  TensorView(std::byte* data, const ViewLayout& layout) : ViewLayout(layout), data_(data) {}
  std::byte* data_ = nullptr;
};

/// Whether two windows share an element: exact for windows of equal row stride (columns of one
/// packed matrix), otherwise whether their address ranges meet. Windows without elements share
/// none.
bool overlaps(const ConstTensorView& a, const ConstTensorView& b);
/// The same elements in the same places: equal address, element type, shape and strides.
bool is_same_window(const ConstTensorView& a, const ConstTensorView& b);

static_assert(!std::is_convertible_v<ConstTensorView, TensorView>);
static_assert(std::is_convertible_v<TensorView, ConstTensorView>);

}  // namespace ulmus
