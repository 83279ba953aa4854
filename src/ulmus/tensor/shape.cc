#include "ulmus/tensor/shape.h"

#include <algorithm>
#include <ostream>

#include "ulmus/base/check.h"

namespace ulmus {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  ULMUS_CHECK(dims.size() <= kMaxRank, "rank ", dims.size(), ", at most ", kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (const std::int64_t size : dims)
    ULMUS_CHECK(size >= 0, "dimension ", size);
}

std::int64_t Shape::dim(int axis) const {
  ULMUS_CHECK(0 <= axis && axis < rank_, "axis ", axis, " of ", *this);
  return dims_[static_cast<std::size_t>(axis)];
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t size : dims())
    product *= size;
  return product;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  const char* separator = "";
  for (const std::int64_t size : shape.dims()) {
    out << separator << size;
    separator = ", ";
  }
  return out << ']';
}

}  // namespace ulmus
