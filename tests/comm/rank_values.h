#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/comm/operations.h"

namespace ulmus::comm::test {

/// 64 well mixed bits of (a, b).
inline std::uint64_t mixed_bits(std::uint64_t a, std::uint64_t b) {
  std::uint64_t bits = (a + 1) * 0x9E3779B97F4A7C15U + b * 0xD1B54A32D192ED03U;
  for (const unsigned shift : {31U, 29U, 32U}) {
    bits = (bits ^ (bits >> shift)) * 0xBF58476D1CE4E5B9U;
  }
  return bits ^ (bits >> 33U);
}

/// Element i of what rank r contributes: every rank can compute every rank's data. Integers of full
/// range, floats of so many magnitudes that a sum shows in which order it was formed.
template <class T>
T rank_value(int rank, std::int64_t i) {
  const std::uint64_t bits =
      mixed_bits(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i));
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    const auto mantissa = static_cast<double>(static_cast<std::int32_t>(bits >> 32U)) * 0x1p-31;
    // 2^(bits % 24), by its exponent
    return static_cast<T>(mantissa * std::bit_cast<double>((1023U + bits % 24U) << 52U));
  }
}

template <class T>
void fill_values(std::vector<T>& values, int rank) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = rank_value<T>(rank, static_cast<std::int64_t>(i));
  }
}

template <class T>
std::vector<T> rank_values(int rank, std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  fill_values(values, rank);
  return values;
}

template <class T>
T added(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

/// Sum over the members in their order, element i.
template <class T>
T sum_in_order(const Communicator& group, std::int64_t i) {
  T total = rank_value<T>(group.world_rank(0), i);
  for (int member = 1; member < group.size(); ++member) {
    total = added(total, rank_value<T>(group.world_rank(member), i));
  }
  return total;
}

template <class T>
TensorView view_of(std::vector<T>& values) {
  return {values.data(), kDTypeOf<T>, {static_cast<std::int64_t>(values.size())}};
}

/// Staging memory, aligned as an arena aligns.
class Staging {
 public:
  explicit Staging(std::int64_t num_bytes)
      : words_(static_cast<std::size_t>((num_bytes + 7) / 8)), num_bytes_(num_bytes) {}
  TensorView view() { return {words_.data(), DType::kU8, {num_bytes_}}; }

 private:
  std::vector<std::uint64_t> words_;
  std::int64_t num_bytes_;
};

/// Bounds from the sizes of the pieces.
inline PieceBounds bounds_of(const std::vector<std::int64_t>& sizes) {
  PieceBounds begin{0};
  for (const std::int64_t size : sizes) {
    begin.push_back(begin.back() + size);
  }
  return begin;
}

/// Equal as bits: a NaN equals itself and -0 is not 0.
template <class T>
bool same_bits(const T& a, const T& b) {
  using Bytes = std::array<std::byte, sizeof(T)>;
  return std::bit_cast<Bytes>(a) == std::bit_cast<Bytes>(b);
}

}  // namespace ulmus::comm::test
