#pragma once

#include <cstdint>
#include <cstring>

namespace ulmus::ops::cpu {

/// Eight floats at once, in the compilers' vector extension: AVX2 where the target has it, pairs of
/// four-lane registers on other processors. Operators work lane by lane; a comparison gives an
/// I32x8 of 0 and -1. `a * b + c` becomes one fused operation in files that allow contraction;
/// hence always_inline: two files compiled with different flags must never share one copy.
using F32x8 = float __attribute__((vector_size(32)));
using I32x8 = std::int32_t __attribute__((vector_size(32)));
using U32x8 = std::uint32_t __attribute__((vector_size(32)));
using I32x4 = std::int32_t __attribute__((vector_size(16)));
using F32x4 = float __attribute__((vector_size(16)));
/// Four doubles, for sums that must not lose small terms.
using F64x4 = double __attribute__((vector_size(32)));

inline constexpr std::int64_t kLanes = 8;

/// No alignment is asked for.
[[gnu::always_inline]] inline F32x8 load(const float* from) {
  F32x8 x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
[[gnu::always_inline]] inline void store(float* to, F32x8 x) { std::memcpy(to, &x, sizeof(x)); }

/// The first `count` lanes, 0 <= count <= 8; the others are `rest` (load) or not written (store).
/// A row's tail takes the same path as its body, so that its bits do not depend on the width.
[[gnu::always_inline]] inline F32x8 load_first(const float* from, std::int64_t count,
                                               float rest = 0.0F) {
  F32x8 x = F32x8{} + rest;
  std::memcpy(&x, from, static_cast<std::size_t>(count) * sizeof(float));
  return x;
}
[[gnu::always_inline]] inline void store_first(float* to, F32x8 x, std::int64_t count) {
  std::memcpy(to, &x, static_cast<std::size_t>(count) * sizeof(float));
}

[[gnu::always_inline]] inline F32x8 splat(float x) { return F32x8{x, x, x, x, x, x, x, x}; }

[[gnu::always_inline]] inline F32x8 select(I32x8 mask, F32x8 yes, F32x8 no) {
  return mask ? yes : no;
}

/// Lane by lane; b where either is NaN.
[[gnu::always_inline]] inline F32x8 max(F32x8 a, F32x8 b) { return a > b ? a : b; }
[[gnu::always_inline]] inline F32x8 min(F32x8 a, F32x8 b) { return a < b ? a : b; }

[[gnu::always_inline]] inline F32x4 low_half(F32x8 x) {
  return __builtin_shufflevector(x, x, 0, 1, 2, 3);
}
[[gnu::always_inline]] inline F32x4 high_half(F32x8 x) {
  return __builtin_shufflevector(x, x, 4, 5, 6, 7);
}

/// ((x0 + x4) + (x2 + x6)) + ((x1 + x5) + (x3 + x7)), always in this order.
[[gnu::always_inline]] inline float horizontal_sum(F32x8 x) {
  const F32x4 s = low_half(x) + high_half(x);
  return (s[0] + s[2]) + (s[1] + s[3]);
}
/// (x0 + x2) + (x1 + x3)
[[gnu::always_inline]] inline double horizontal_sum(F64x4 x) {
  return (x[0] + x[2]) + (x[1] + x[3]);
}

/// Largest lane; unspecified when a lane is NaN.
[[gnu::always_inline]] inline float horizontal_max(F32x8 x) {
  const F32x4 low = low_half(x);
  const F32x4 high = high_half(x);
  const F32x4 m = low > high ? low : high;
  const float even = m[0] > m[2] ? m[0] : m[2];
  const float odd = m[1] > m[3] ? m[1] : m[3];
  return even > odd ? even : odd;
}

[[gnu::always_inline]] inline std::int32_t horizontal_max(I32x8 x) {
  const I32x4 low = __builtin_shufflevector(x, x, 0, 1, 2, 3);
  const I32x4 high = __builtin_shufflevector(x, x, 4, 5, 6, 7);
  const I32x4 m = low > high ? low : high;
  const std::int32_t even = m[0] > m[2] ? m[0] : m[2];
  const std::int32_t odd = m[1] > m[3] ? m[1] : m[3];
  return even > odd ? even : odd;
}

[[gnu::always_inline]] inline F64x4 widen(F32x4 x) { return __builtin_convertvector(x, F64x4); }

/// e^x in each lane with a relative error below 1.3e-7 (about one unit in the last place), down to
/// subnormal results; 0 at -infinity, infinity from 88.73 on, NaN for NaN.
///
///   e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2, e^r by a minimax polynomial of degree 6
///   whose own relative error is 3e-9
[[gnu::always_inline]] inline F32x8 exp(F32x8 x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // 9 bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the integer in the low bits
  constexpr float kUnderflow = -104.0F;  // e^-104 rounds to 0, e^89 to infinity
  constexpr float kOverflow = 89.0F;
  x = min(splat(kOverflow), x);  // NaN stays
  x = max(splat(kUnderflow), x);
  const F32x8 shifted = x * kLog2E + kRound;
  const F32x8 n = shifted - kRound;
  const F32x8 r = (x - n * kLn2High) - n * kLn2Low;
  F32x8 p = splat(0.00138145405F);
  p = p * r + 0.00836874511F;
  p = p * r + 0.0416683908F;
  p = p * r + 0.166665204F;
  p = p * r + 0.499999934F;
  p = p * (r * r) + r + 1.0F;
  // 2^n in two factors, each a normal number, so that results may be subnormal or infinite.
  const I32x8 exponent = reinterpret_cast<I32x8>(shifted) - reinterpret_cast<I32x8>(splat(kRound));
  const I32x8 half = exponent >> 1;
  const U32x8 first = (reinterpret_cast<U32x8>(half) + 127U) << 23U;
  const U32x8 second = (reinterpret_cast<U32x8>(exponent - half) + 127U) << 23U;
  return p * reinterpret_cast<F32x8>(first) * reinterpret_cast<F32x8>(second);
}

/// 1 / (1 + e^-x); 0 and 1 at the infinities, NaN for NaN.
[[gnu::always_inline]] inline F32x8 sigmoid(F32x8 x) { return 1.0F / (1.0F + exp(-x)); }

}  // namespace ulmus::ops::cpu
