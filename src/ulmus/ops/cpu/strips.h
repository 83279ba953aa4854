#pragma once

#include <cstdint>

namespace ulmus::ops::cpu {

// A matrix [k, n] in strips of 16 columns: strip s holds columns [16 s, 16 s + 16) as k rows of 16
// floats, one strip after the other; columns that do not exist are zeros. It is the form in which
// the register tiles of direct_gemm.h read their right operand from neighbouring cache lines.

/// Columns of a strip: two vectors.
inline constexpr std::int64_t kStripColumns = 16;

constexpr std::int64_t num_strips(std::int64_t columns) {
  return (columns + kStripColumns - 1) / kStripColumns;
}
/// Floats of a matrix [k, columns] in strips.
constexpr std::int64_t strip_elements(std::int64_t k, std::int64_t columns) {
  return num_strips(columns) * kStripColumns * k;
}

/// Strips of from [k, columns], whose rows are `stride` apart.
void pack_strips(float* strips, const float* from, std::int64_t stride, std::int64_t k,
                 std::int64_t columns);

/// Strips of the transpose of from [columns, k].
void pack_strips_transposed(float* strips, const float* from, std::int64_t stride, std::int64_t k,
                            std::int64_t columns);

/// The reverse: to[i, j] = factors[i] * strips[j, i] for i < columns, j < k.
void unpack_strips_transposed(float* to, std::int64_t stride, const float* strips, std::int64_t k,
                              std::int64_t columns, const float* factors);

/// Asks for rows before they are needed, into the second-level cache: where rows lie far apart, the
/// processor does not foresee the next one.
inline void prefetch_rows(const float* rows, std::int64_t stride, std::int64_t num_rows,
                          std::int64_t width) {
  constexpr std::int64_t kCacheLineFloats = 16;
  constexpr int kRead = 0;
  constexpr int kSecondLevel = 2;
  for (std::int64_t i = 0; i < num_rows; ++i) {
    for (std::int64_t j = 0; j < width; j += kCacheLineFloats) {
      __builtin_prefetch(rows + i * stride + j, kRead, kSecondLevel);
    }
  }
}

}  // namespace ulmus::ops::cpu
