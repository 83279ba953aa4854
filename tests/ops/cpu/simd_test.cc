#include "ulmus/ops/cpu/simd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/tolerance.h"

namespace ulmus::ops::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Simd, ExpIsAccurateOverItsRange) {
  double worst = 0.0;
  for (float x = -87.3F; x < 88.7F; x += 0.0037F) {
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp(splat(x))[5]) - expected) / expected);
  }
  EXPECT_LT(worst, test::kExpF32.relative);
}

TEST(Simd, ExpOfSubnormalResults) {
  for (float x = -104.0F; x < -87.3F; x += 0.0371F) {
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(static_cast<double>(exp(splat(x))[0]), expected, test::kExpF32.absolute) << x;
  }
}

TEST(Simd, ExpAndSigmoidAtTheEnds) {
  const F32x8 x = {-kInfinity, kInfinity, kNan, 0.0F, -0.0F, -1e30F, 1e30F, 89.0F};
  const F32x8 e = exp(x);
  EXPECT_EQ(e[0], 0.0F);
  EXPECT_EQ(e[1], kInfinity);
  EXPECT_TRUE(std::isnan(e[2]));
  EXPECT_EQ(e[3], 1.0F);
  EXPECT_EQ(e[4], 1.0F);
  EXPECT_EQ(e[5], 0.0F);
  EXPECT_EQ(e[6], kInfinity);
  EXPECT_EQ(e[7], kInfinity);
  const F32x8 s = sigmoid(x);
  EXPECT_EQ(s[0], 0.0F);
  EXPECT_EQ(s[1], 1.0F);
  EXPECT_TRUE(std::isnan(s[2]));
  EXPECT_EQ(s[3], 0.5F);
  EXPECT_EQ(s[5], 0.0F);
  EXPECT_EQ(s[6], 1.0F);
}

TEST(Simd, SumsInTheStatedOrder) {
  // 1e8 swallows 1: the result tells which lanes met first.
  const F32x8 x = {1e8F, 1.0F, 0.0F, 0.0F, -1e8F, 1.0F, 0.0F, 3.0F};
  EXPECT_EQ(horizontal_sum(x), 5.0F);
  const F32x8 y = {1e8F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F, -1e8F};
  EXPECT_EQ(horizontal_sum(y), (1e8F + 1.0F) + (1.0F + -1e8F));
  EXPECT_EQ(horizontal_sum(F64x4{1e17, 1.0, -1e17, 2.0}), 3.0);
}

TEST(Simd, LargestLane) {
  for (int lane = 0; lane < kLanes; ++lane) {
    F32x8 x = splat(-3.0F);
    x[lane] = -2.0F;
    EXPECT_EQ(horizontal_max(x), -2.0F) << lane;
    I32x8 i = I32x8{} - 3;
    i[lane] = 7;
    EXPECT_EQ(horizontal_max(i), 7) << lane;
  }
}

TEST(Simd, FirstLanesOnly) {
  const std::vector<float> from = {1, 2, 3};
  const F32x8 x = load_first(from.data(), 3, 9.0F);
  EXPECT_EQ(x[2], 3.0F);
  EXPECT_EQ(x[3], 9.0F);
  EXPECT_EQ(x[7], 9.0F);
  std::vector<float> to(4, 5.0F);
  store_first(to.data(), x, 3);
  EXPECT_EQ(to, (std::vector<float>{1, 2, 3, 5}));
}

}  // namespace
}  // namespace ulmus::ops::cpu
