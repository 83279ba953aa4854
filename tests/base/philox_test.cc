#include "ulmus/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ulmus {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors: philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}),
            (PhiloxCounter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox({0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}),
            (PhiloxCounter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0xA4093822, 0x299F31D0}, {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}),
            (PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, KeysDependOnSeedPurposeAndName) {
  const PhiloxKey key = philox_key(1, RandomPurpose::kInitialWeights, "a");
  EXPECT_NE(key, philox_key(2, RandomPurpose::kInitialWeights, "a"));
  EXPECT_NE(key, philox_key(1, RandomPurpose::kDataOrder, "a"));
  EXPECT_NE(key, philox_key(1, RandomPurpose::kInitialWeights, "b"));
}

TEST(Philox, TruncatedNormalHasTheMomentsOfTheCutDistribution) {
  constexpr std::uint64_t kDraws = 200000;
  constexpr double kBound = 3.0;
  const PhiloxKey key = philox_key(7, RandomPurpose::kTest, "moments");
  double sum = 0.0;
  double sum_sq = 0.0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double z = philox_truncated_normal(key, i, kBound);
    ASSERT_LE(std::abs(z), kBound);
    sum += z;
    sum_sq += z * z;
  }
  // Variance of the cut normal: 1 - 2 b phi(b) / (2 Phi(b) - 1) = 0.97334 at b = 3. The standard
  // errors of mean and variance are 0.0022 and 0.003: four of them.
  EXPECT_NEAR(sum / kDraws, 0.0, 0.009);
  EXPECT_NEAR(sum_sq / kDraws, 0.97334, 0.012);
}

}  // namespace
}  // namespace ulmus
