#pragma once

#include <limits>

#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

/// Stands in lanes beyond the last expert: its score is 0.
inline constexpr float kNoExpert = -std::numeric_limits<float>::infinity();

/// Up to eight elements of a row, `rest` in the lanes beyond.
[[gnu::always_inline]] inline F32x8 load_row(const float* from, std::int64_t count,
                                             float rest = 0.0F) {
  return count == kLanes ? load(from) : load_first(from, count, rest);
}

[[gnu::always_inline]] inline void store_row(float* to, F32x8 x, std::int64_t count) {
  if (count == kLanes) {
    store(to, x);
  } else {
    store_first(to, x, count);
  }
}

/// Lanes of a row of `width` that begin at element `at`.
inline std::int64_t lanes_from(std::int64_t at, std::int64_t width) {
  return width - at < kLanes ? width - at : kLanes;
}

/// max_e x[e] and sum_e exp(x[e] - max). A NaN anywhere makes the sum NaN.
struct SoftmaxRow {
  float max;
  float sum;
};

[[gnu::always_inline]] inline SoftmaxRow softmax_row(const float* x, std::int64_t width) {
  F32x8 largest = splat(kNoExpert);
  for (std::int64_t e = 0; e < width; e += kLanes) {
    const std::int64_t count = lanes_from(e, width);
    largest = max(load_row(x + e, count, kNoExpert), largest);
  }
  const float top = horizontal_max(largest);
  F32x8 sum{};
  for (std::int64_t e = 0; e < width; e += kLanes) {
    const std::int64_t count = lanes_from(e, width);
    sum += exp(load_row(x + e, count, kNoExpert) - top);
  }
  return {top, horizontal_sum(sum)};
}

}  // namespace ulmus::ops::cpu
