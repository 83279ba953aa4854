#include "ulmus/ops/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

TEST(RopeTable, PlainAngles) {
  const std::vector<double> table = rope_table({.theta = 100.0}, 4, 4);
  ASSERT_EQ(table.size(), 16U);
  // Channel pairs turn by 1 and by 100^(-2/4) = 1/10 for each position.
  test::expect_close({table.begin() + 12, table.end()},
                     {std::cos(3.0), std::cos(0.3), std::sin(3.0), std::sin(0.3)}, kClosedFormF64,
                     "row 3");
  test::expect_close({table.begin(), table.begin() + 4}, {1, 1, 0, 0}, test::kExact, "row 0");
}

TEST(Rope, HalfSplitPairsAndKnownAngle) {
  DeviceFixture f;
  // A table of our own: position 1 turns pair 0 by 90 degrees and pair 1 by 180.
  const TensorView table = f.f64({2, 4}, {1, 1, 0, 0, 0, -1, 1, 0});
  const TensorView y = f.stale(DType::kF64, {2, 1, 4});
  rope({.y = y,
        .x = f.f64({2, 1, 4}, {1, 2, 3, 4, 1, 2, 3, 4}),
        .table = table,
        .positions = f.i32({2}, {1, 0})},
       f.ctx);
  EXPECT_EQ(f.values(y), (std::vector<double>{-3, -2, 1, -4, 1, 2, 3, 4}));
}

class RopeTest : public testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 6;
  static constexpr std::int64_t kHeads = 3;
  static constexpr std::int64_t kWidth = 10;
  DeviceFixture f_;
  TensorView x_ = f_.normal(DType::kF64, {kTokens, kHeads, kWidth}, "x");
  TensorView y_ = f_.stale(DType::kF64, {kTokens, kHeads, kWidth});
  TensorView table_ = f_.f64({40, kWidth}, rope_table({}, 40, kWidth));
  TensorView positions_ = f_.i32({kTokens}, {0, 1, 2, 39, 7, 7});
};

TEST_F(RopeTest, KeepsEveryPairsNorm) {
  rope({.y = y_, .x = x_, .table = table_, .positions = positions_}, f_.ctx);
  const std::vector<double> x = f_.values(x_);
  const std::vector<double> y = f_.values(y_);
  for (std::size_t head = 0; head < x.size(); head += kWidth) {
    for (std::size_t p = head; p < head + kWidth / 2; ++p) {
      test::expect_close(std::hypot(y[p], y[p + kWidth / 2]), std::hypot(x[p], x[p + kWidth / 2]),
                         kClosedFormF64, "norm of a pair");
    }
  }
}

TEST_F(RopeTest, BackwardIsTheInverseInPlace) {
  const std::vector<double> before = f_.values(x_);
  rope({.y = x_, .x = x_, .table = table_, .positions = positions_}, f_.ctx);
  EXPECT_NE(f_.values(x_), before);
  rope({.y = x_,
        .x = x_,
        .table = table_,
        .positions = positions_,
        .direction = RopeDirection::kBackward},
       f_.ctx);
  test::expect_close(f_.values(x_), before, kClosedFormF64, "x");
}

TEST_F(RopeTest, ScoresDependOnTheDistanceOnly) {
  // <rotated q at i, rotated k at j> is the same for (2, 5) and (30, 33).
  const auto score = [&](std::int32_t i, std::int32_t j) {
    rope(
        {.y = y_.rows(0, 2), .x = x_.rows(0, 2), .table = table_, .positions = f_.i32({2}, {i, j})},
        f_.ctx);
    const std::vector<double> y = f_.values(y_.rows(0, 2));
    double sum = 0.0;
    for (std::size_t p = 0; p < kHeads * kWidth; ++p)
      sum += y[p] * y[kHeads * kWidth + p];
    return sum;
  };
  test::expect_close(score(30, 33), score(2, 5), kClosedFormF64, "score");
}

TEST(RopeTable, YarnOnTwoChannels) {
  // Head width 8, theta 10,000, factor 8, 4,096 positions before the extension. Channel pair p
  // turns 4096 / (2 pi 10^p) times over that length: 651.9, 65.2, 6.5 and 0.65. The pair that
  // turns 32 times is p = log10(651.9 / 32) = 1.309, the one that turns once p = 2.814; rounded
  // outwards the ramp goes from 1 to 3. So pair 1 keeps its frequency, pair 2 takes the mean of
  // kept and divided, pair 3 is divided.
  const double turns = 4096.0 / (2.0 * std::numbers::pi);
  ASSERT_EQ(std::floor(std::log10(turns / 32.0)), 1.0);
  ASSERT_EQ(std::ceil(std::log10(turns / 1.0)), 3.0);
  const RopeConfig config = {.theta = 10000.0, .factor = 8.0, .original_length = 4096.0};
  const std::vector<double> table = rope_table(config, 2, 8);
  const double amplitude = 0.1 * std::log(8.0) + 1.0;
  const double pair2 = 1e-2 * (0.5 * 1.0 + 0.5 / 8.0);
  test::expect_close(
      {table.begin() + 8, table.begin() + 16},
      {amplitude * std::cos(1.0), amplitude * std::cos(0.1), amplitude * std::cos(pair2),
       amplitude * std::cos(1e-3 / 8.0), amplitude * std::sin(1.0), amplitude * std::sin(0.1),
       amplitude * std::sin(pair2), amplitude * std::sin(1e-3 / 8.0)},
      kClosedFormF64, "row 1");
  const std::vector<double> plain = rope_table({.attention_factor = 1.25}, 1, 8);
  test::expect_close(plain[0], 1.25, test::kExact, "given attention factor");
}

TEST(RopeTable, YarnRampIsCutAtTheEnds) {
  // A context so short that every pair turns less than once: all are divided by the factor.
  const std::vector<double> table =
      rope_table({.theta = 10000.0, .factor = 4.0, .original_length = 6.0}, 2, 4);
  const double amplitude = 0.1 * std::log(4.0) + 1.0;
  test::expect_close(table[4 + 1], amplitude * std::cos(0.01 / 4.0), kClosedFormF64, "pair 1");
}

TEST(RopeTable, YarnRampMayEndBeyondTheLastPair) {
  // Head width 8 has the pairs 0 to 3; a ramp from 2 ends at 5, or, cut at the width less one,
  // at 7.
  const auto pair3 = [](double turns_log10) {
    const RopeConfig config = {
        .theta = 10000.0,
        .factor = 4.0,
        .original_length = 2.0 * std::numbers::pi * std::pow(10.0, turns_log10),
        .beta_fast = std::pow(10.0, turns_log10 - 2.3),
        .attention_factor = 1.0};
    return rope_table(config, 2, 8)[8 + 4 + 3];
  };
  const auto mixed = [](double slow) { return std::sin(1e-3 * (1.0 - slow + slow / 4.0)); };
  test::expect_close(pair3(4.5), mixed(1.0 / 3), kClosedFormF64, "ramp to ceil(4.5)");
  test::expect_close(pair3(8.5), mixed(1.0 / 5), kClosedFormF64, "ramp to 7");
}

TEST(RopeTable, RefusesWhatHasNoAngles) {
  EXPECT_THROW(rope_table({}, 4, 5), Error);
  EXPECT_THROW(rope_table({.theta = 1.0}, 4, 4), Error);
  EXPECT_THROW(rope_table({.factor = 0.5}, 4, 4), Error);
  EXPECT_THROW(rope_table({.factor = 2.0}, 4, 4), Error);  // no original length
  EXPECT_THROW(rope_table({.theta = std::nan("")}, 4, 4), Error);
}

}  // namespace
}  // namespace ulmus::ops
