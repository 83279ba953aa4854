#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ulmus {

/// Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3" (SC 2011). A pure function: every random draw of Ulmus is
/// philox(key(seed, purpose), counter(...)), never a call order (design, law 2).
using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxCounter = std::array<std::uint32_t, 4>;

PhiloxCounter philox(PhiloxKey key, PhiloxCounter counter);

/// What a random number is for; part of the key, so that streams never meet.
enum class RandomPurpose : std::uint32_t {
  kInitialWeights = 1,
  kDataOrder = 2,
  kRandomRouting = 3,
  kSampling = 4,
  kTest = 5,
};

/// Key of a stream: seed, purpose and a name (a global tensor name, say) mixed to 64 bits.
PhiloxKey philox_key(std::uint64_t seed, RandomPurpose purpose, std::string_view name);

/// Uniform in [0, 1) with 24 bits.
inline float uniform_float(std::uint32_t bits) { return static_cast<float>(bits >> 8U) * 0x1p-24F; }

/// Uniform in [0, 1) with 53 bits.
inline double uniform_double(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32U) | low;
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

/// Element `index` of the stream's normal variates, cut to |z| <= bound by drawing again.
/// Box-Muller in double; one code path for every element (design, law 2).
double philox_truncated_normal(PhiloxKey key, std::uint64_t index, double bound);

}  // namespace ulmus
