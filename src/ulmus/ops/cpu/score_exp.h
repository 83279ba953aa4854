#pragma once

#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2 = 0.693147182F;

/// 2^x for scores: x <= 127; 0 below -126 (no subnormal results) and at -infinity, NaN for NaN.
/// Shorter than exp (simd.h), since scores need neither its upper nor its lower end. Relative error
/// below 1.6e-7.
///   2^x = 2^n 2^r, n = round(x), |r| <= 1/2, 2^r by a minimax polynomial of degree 5 (error 8e-8)
[[gnu::always_inline]] inline F32x8 exp2_of_score(F32x8 x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the integer in the low bits
  const F32x8 shifted = x + kRound;
  const F32x8 r = x - (shifted - kRound);
  F32x8 p = splat(0.00132764720F);
  p = p * r + 0.00967554133F;
  p = p * r + 0.0555071327F;
  p = p * r + 0.240221197F;
  p = p * r + 0.693146967F;
  p = p * r + 1.00000007F;
  const U32x8 power = (reinterpret_cast<U32x8>(shifted) + 127U) << 23U;
  return x < -126.0F ? splat(0.0F) : p * reinterpret_cast<F32x8>(power);
}

}  // namespace ulmus::ops::cpu
