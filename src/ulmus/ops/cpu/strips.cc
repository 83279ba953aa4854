#include "ulmus/ops/cpu/strips.h"

#include <algorithm>

#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

namespace {

[[gnu::always_inline]] inline F32x8 low_pairs(F32x8 a, F32x8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
[[gnu::always_inline]] inline F32x8 high_pairs(F32x8 a, F32x8 b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
[[gnu::always_inline]] inline F32x8 low_quads(F32x8 a, F32x8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
}
[[gnu::always_inline]] inline F32x8 high_quads(F32x8 a, F32x8 b) {
  return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}

/// to[j * to_stride + i] = from[i * from_stride + j] for i, j < 8.
[[gnu::always_inline]] inline void transpose_block(float* to, std::int64_t to_stride,
                                                   const float* from, std::int64_t from_stride) {
  F32x8 low[4];
  F32x8 high[4];
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < 4; ++i) {
    const F32x8 even = load(from + 2 * i * from_stride);
    const F32x8 odd = load(from + (2 * i + 1) * from_stride);
    low[i] = low_pairs(even, odd);
    high[i] = high_pairs(even, odd);
  }
  // `upper` and `lower`: columns j and j + 4 of rows 0..3 and of rows 4..7.
  const auto write = [&](int j, F32x8 upper, F32x8 lower) {
    store(to + j * to_stride, __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 8, 9, 10, 11));
    store(to + (j + 4) * to_stride,
          __builtin_shufflevector(upper, lower, 4, 5, 6, 7, 12, 13, 14, 15));
  };
  write(0, low_quads(low[0], low[1]), low_quads(low[2], low[3]));
  write(1, high_quads(low[0], low[1]), high_quads(low[2], low[3]));
  write(2, low_quads(high[0], high[1]), low_quads(high[2], high[3]));
  write(3, high_quads(high[0], high[1]), high_quads(high[2], high[3]));
}

}  // namespace

void pack_strips(float* strips, const float* from, std::int64_t stride, std::int64_t k,
                 std::int64_t columns) {
  for (std::int64_t begin = 0; begin < columns; begin += kStripColumns) {
    const std::int64_t here = std::min(kStripColumns, columns - begin);
    const float* row = from + begin;
    if (here == kStripColumns) {
      for (std::int64_t i = 0; i < k; ++i, row += stride, strips += kStripColumns) {
        store(strips, load(row));
        store(strips + kLanes, load(row + kLanes));
      }
    } else {
      const std::int64_t low = std::min(here, kLanes);
      for (std::int64_t i = 0; i < k; ++i, row += stride, strips += kStripColumns) {
        store(strips, load_first(row, low));
        store(strips + kLanes, load_first(row + low, here - low));
      }
    }
  }
}

void pack_strips_transposed(float* strips, const float* from, std::int64_t stride, std::int64_t k,
                            std::int64_t columns) {
  const std::int64_t padded = num_strips(columns) * kStripColumns;
  for (std::int64_t begin = 0; begin < padded; begin += kLanes) {
    float* const to = strips + begin / kStripColumns * k * kStripColumns + begin % kStripColumns;
    const float* const rows = from + begin * stride;
    const std::int64_t here = std::clamp<std::int64_t>(columns - begin, 0, kLanes);
    std::int64_t term = 0;
    if (here == kLanes) {
      for (; term + kLanes <= k; term += kLanes) {
        transpose_block(to + term * kStripColumns, kStripColumns, rows + term, stride);
      }
    }
    for (; term < k; ++term) {
      for (std::int64_t i = 0; i < kLanes; ++i) {
        to[term * kStripColumns + i] = i < here ? rows[i * stride + term] : 0.0F;
      }
    }
  }
}

void unpack_strips_transposed(float* to, std::int64_t stride, const float* strips, std::int64_t k,
                              std::int64_t columns, const float* factors) {
  for (std::int64_t begin = 0; begin < columns; begin += kLanes) {
    const float* const from =
        strips + begin / kStripColumns * k * kStripColumns + begin % kStripColumns;
    float* const rows = to + begin * stride;
    const std::int64_t here = std::min(kLanes, columns - begin);
    std::int64_t term = 0;
    if (here == kLanes) {
      for (; term + kLanes <= k; term += kLanes) {
        transpose_block(rows + term, stride, from + term * kStripColumns, kStripColumns);
        for (std::int64_t i = 0; i < kLanes; ++i) {
          float* const row = rows + i * stride + term;
          store(row, load(row) * factors[begin + i]);
        }
      }
    }
    for (; term < k; ++term) {
      for (std::int64_t i = 0; i < here; ++i) {
        rows[i * stride + term] = factors[begin + i] * from[term * kStripColumns + i];
      }
    }
  }
}

}  // namespace ulmus::ops::cpu
