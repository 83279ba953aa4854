#include "ulmus/base/philox.h"

#include <cmath>
#include <numbers>

namespace ulmus {

namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
constexpr int kRounds = 10;

// Finaliser of SplitMix64 (Steele et al. 2014): mixes every input bit into every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30U;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27U;
  x *= 0x94D049BB133111EBULL;
  x ^= x >> 31U;
  return x;
}

}  // namespace

PhiloxCounter philox(PhiloxKey key, PhiloxCounter counter) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32U) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32U) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

PhiloxKey philox_key(std::uint64_t seed, RandomPurpose purpose, std::string_view name) {
  // FNV-1a over the name, then mixed with seed and purpose.
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3ULL;
  }
  const std::uint64_t mixed =
      mix(mix(seed + 0x9E3779B97F4A7C15ULL) ^ mix(hash + static_cast<std::uint64_t>(purpose)));
  return {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32U)};
}

double philox_truncated_normal(PhiloxKey key, std::uint64_t index, double bound) {
  const auto low = static_cast<std::uint32_t>(index);
  const auto high = static_cast<std::uint32_t>(index >> 32U);
  for (std::uint32_t attempt = 0;; ++attempt) {
    const PhiloxCounter bits = philox(key, {low, high, attempt, 0});
    const double u = 1.0 - uniform_double(bits[0], bits[1]);  // (0, 1]: the logarithm is finite
    const double angle = 2.0 * std::numbers::pi * uniform_double(bits[2], bits[3]);
    const double radius = std::sqrt(-2.0 * std::log(u));
    for (const double z : {radius * std::cos(angle), radius * std::sin(angle)}) {
      if (std::abs(z) <= bound) {
        return z;
      }
    }
  }
}

}  // namespace ulmus
