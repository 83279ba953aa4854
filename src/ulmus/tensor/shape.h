#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

namespace ulmus {

/// Up to four dimensions, outermost first. No allocation.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  /// Error when there are more than kMaxRank dimensions or one is negative.
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Size of one axis; Error when the axis does not exist.
  std::int64_t dim(int axis) const;
  /// Product of all dimensions; 1 for rank 0.
  std::int64_t numel() const;
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// "[4, 8]"
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace ulmus
