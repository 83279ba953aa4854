#pragma once

#include <limits>

#include "ulmus/ops/cpu/simd.h"
#include "ulmus/ops/router.h"

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

/// max_e x[e]; NaN does not count.
[[gnu::always_inline]] inline float row_max(const float* x, std::int64_t width) {
  F32x8 largest = splat(kNoExpert);
  for (std::int64_t e = 0; e < width; e += kLanes) {
    largest = max(load_row(x + e, lanes_from(e, width), kNoExpert), largest);
  }
  return horizontal_max(largest);
}

/// Scores of one token's experts, from eight logits at a time.
struct Scores {
  bool is_exp;  ///< scale * e^(x - shift), else scale * sigmoid(x)
  float shift;
  float scale;

  [[gnu::always_inline]] inline F32x8 operator()(F32x8 x) const {
    return scale * (is_exp ? exp(x - shift) : sigmoid(x));
  }
  /// sum_e of the scores; NaN when a logit is.
  [[gnu::always_inline]] inline float sum(const float* x, std::int64_t width) const {
    F32x8 sums{};
    for (std::int64_t e = 0; e < width; e += kLanes) {
      sums += (*this)(load_row(x + e, lanes_from(e, width), kNoExpert));
    }
    return horizontal_sum(sums);
  }
};

/// Scores up to a common factor, formed so that those of the experts whose largest logit is `max`
/// do not all underflow: ratios of them are safe. Far below zero the sigmoid is the exponential.
[[gnu::always_inline]] inline Scores relative_scores(RouterGate gate, float max) {
  constexpr float kExponential = -20.0F;  // 1 + e^-20 rounds to 1
  return {gate == RouterGate::kSoftmax || max < kExponential, max, 1.0F};
}

/// The normalised scores of all experts: softmax, or sigmoid divided by its sum.
[[gnu::always_inline]] inline Scores normalised_scores(const float* x, std::int64_t width,
                                                       RouterGate gate) {
  Scores scores = relative_scores(gate, row_max(x, width));
  scores.scale = 1.0F / scores.sum(x, width);
  return scores;
}

}  // namespace ulmus::ops::cpu
