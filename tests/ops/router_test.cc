#include "ulmus/ops/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class RouterTest : public testing::Test {
 protected:
  /// ids of one token
  std::vector<std::int32_t> select(const std::vector<double>& logits, std::int64_t top_k,
                                   const std::vector<double>& bias = {},
                                   RouterGate gate = RouterGate::kSoftmax) {
    const auto experts = static_cast<std::int64_t>(logits.size());
    const TensorView ids = f_.zeros(DType::kI32, {1, top_k});
    router_select({.ids = ids,
                   .logits = f_.f64({1, experts}, logits),
                   .bias = bias.empty() ? TensorView() : f_.f64({experts}, bias),
                   .valid = f_.tensor<std::uint8_t>({1}, {1}),
                   .gate = gate},
                  f_.ctx);
    return f_.read<std::int32_t>(ids);
  }
  /// weights of one token
  std::vector<double> weights(const std::vector<double>& logits, const std::vector<std::int32_t>& k,
                              RouterRule rule) {
    const auto top_k = static_cast<std::int64_t>(k.size());
    const TensorView out = f_.stale(DType::kF64, {1, top_k});
    lse_ = f_.stale(DType::kF64, {1});
    router_weights({.weights = out,
                    .lse = lse_,
                    .logits = f_.f64({1, static_cast<std::int64_t>(logits.size())}, logits),
                    .ids = f_.i32({1, top_k}, k),
                    .rule = rule},
                   f_.ctx);
    return f_.values(out);
  }
  using Ids = std::vector<std::int32_t>;
  DeviceFixture f_;
  TensorView lse_;
};

TEST_F(RouterTest, LargestFirst) {
  EXPECT_EQ(select({0.1, 3.0, -2.0, 2.0}, 2), (Ids{1, 3}));
  EXPECT_EQ(select({0.1, 3.0, -2.0, 2.0}, 4), (Ids{1, 3, 0, 2}));  // K = E
  EXPECT_EQ(select({-5.0}, 1), (Ids{0}));
}

TEST_F(RouterTest, EqualOnesGoToTheLowestIndex) {
  EXPECT_EQ(select({1, 1, 1, 1, 1}, 3), (Ids{0, 1, 2}));
  EXPECT_EQ(select({0, 2, 1, 2, 1}, 4), (Ids{1, 3, 2, 4}));
  EXPECT_EQ(select({-kInf, 0, -kInf, -kInf}, 3), (Ids{1, 0, 2}));
  EXPECT_EQ(select({0.0, -0.0}, 2), (Ids{0, 1}));
}

TEST_F(RouterTest, NanRanksBelowEverything) {
  EXPECT_EQ(select({kNan, 1, kNan, 2}, 2), (Ids{3, 1}));
  EXPECT_EQ(select({kNan, -kInf, kNan, 2}, 4), (Ids{3, 1, 0, 2}));
  EXPECT_EQ(select({kNan, kNan, kNan}, 2), (Ids{0, 1}));
  // With a bias a NaN spoils every softmax score; ids are distinct all the same.
  EXPECT_EQ(select({1, kNan, 2}, 3, {0, 0, 0}), (Ids{0, 1, 2}));
  EXPECT_EQ(select({1, kNan, 2}, 3, {0, 0, 0}, RouterGate::kSigmoid), (Ids{2, 0, 1}));
  EXPECT_EQ(select({kInf, 1, kInf}, 2), (Ids{0, 2}));
}

TEST_F(RouterTest, BiasIsAddedToScores) {
  // Softmax of (log 1, log 2, log 5) is (1, 2, 5) / 8.
  const std::vector<double> logits = {0, std::log(2.0), std::log(5.0)};
  EXPECT_EQ(select(logits, 2, {0, 0, 0}), (Ids{2, 1}));
  EXPECT_EQ(select(logits, 2, {0.51, 0, 0}), (Ids{0, 2}));
  EXPECT_EQ(select(logits, 2, {0.49, 0, 0}), (Ids{2, 0}));
  // Sigmoid of 0 is 1/2, of log 5 is 5/6.
  EXPECT_EQ(select(logits, 1, {0.33, 0, 0}, RouterGate::kSigmoid), (Ids{2}));
  EXPECT_EQ(select(logits, 1, {0.34, 0, 0}, RouterGate::kSigmoid), (Ids{0}));
}

TEST_F(RouterTest, PaddingIsRoutedNowhere) {
  const TensorView ids = f_.zeros(DType::kI32, {3, 2});
  const TensorView logits = f_.f64({3, 3}, {3, 2, 1, 1, 2, 3, 1, 3, 2});
  const TensorView valid = f_.tensor<std::uint8_t>({3}, {1, 0, 1});
  router_select({.ids = ids, .logits = logits, .bias = {}, .valid = valid}, f_.ctx);
  EXPECT_EQ(f_.read<std::int32_t>(ids), (Ids{0, 1, -1, -1, 1, 2}));
  const TensorView weights = f_.stale(DType::kF64, {3, 2});
  router_weights({.weights = weights,
                  .lse = f_.zeros(DType::kF64, {3}),
                  .logits = logits,
                  .ids = ids,
                  .rule = {.weights = RouteWeights::kSumToOne}},
                 f_.ctx);
  const std::vector<double> values = f_.values(weights);
  EXPECT_EQ(values[2], 0.0);
  EXPECT_EQ(values[3], 0.0);
  test::expect_close(values[4] + values[5], 1.0, kClosedFormF64, "sum");
}

TEST_F(RouterTest, WeightRules) {
  // Softmax of these logits is (1, 2, 5) / 8; chosen: 5/8 and 1/8.
  const std::vector<double> logits = {0, std::log(2.0), std::log(5.0)};
  const Ids ids = {2, 0};
  RouterRule rule;
  test::expect_close(weights(logits, ids, rule), {5.0 / 8, 1.0 / 8}, kClosedFormF64, "raw");
  test::expect_close(f_.values(lse_), {std::log(8.0)}, kClosedFormF64, "lse");
  rule.weights = RouteWeights::kSumToOne;
  test::expect_close(weights(logits, ids, rule), {5.0 / 6, 1.0 / 6}, kClosedFormF64, "to one");
  rule.weights = RouteWeights::kSumToK;
  rule.scale = 1.5;
  test::expect_close(weights(logits, ids, rule), {2.5, 0.5}, kClosedFormF64, "to K, scaled");
  // Sigmoid: 5/6 and 1/2; lse is that of the logits all the same.
  rule = {.gate = RouterGate::kSigmoid, .scale = 2.0};
  test::expect_close(weights(logits, ids, rule), {10.0 / 6, 1.0}, kClosedFormF64, "sigmoid raw");
  test::expect_close(f_.values(lse_), {std::log(8.0)}, kClosedFormF64, "lse");
  rule = {.gate = RouterGate::kSigmoid, .weights = RouteWeights::kSumToOne};
  test::expect_close(weights(logits, ids, rule), {5.0 / 8, 3.0 / 8}, kClosedFormF64, "sigmoid 1");
}

TEST_F(RouterTest, TinyScoresAreNormalisedWithoutDividingZeroByZero) {
  RouterRule rule = {.weights = RouteWeights::kSumToOne};
  // Both chosen scores are exp(-2000): 0 in f64.
  test::expect_close(weights({2000, 0, 0}, {1, 2}, rule), {0.5, 0.5}, kClosedFormF64, "softmax");
  rule.gate = RouterGate::kSigmoid;
  test::expect_close(weights({0, -2000, -2000 + std::log(3.0)}, {1, 2}, rule), {0.25, 0.75},
                     test::Tolerance{1e-12, 1e-12, "2000 + log 3 keeps 13 digits"}, "sigmoid");
}

TEST(ForcedRoutes, UniformUsesEveryExpertEquallyOften) {
  DeviceFixture f;
  const TensorView ids = f.zeros(DType::kI32, {4, 2});
  const TensorView valid = f.tensor<std::uint8_t>({4}, {1, 1, 0, 1});
  forced_routes({.ids = ids,
                 .valid = valid,
                 .routing = ForcedRouting::kUniform,
                 .num_experts = 5,
                 .first_token = 1},
                f.ctx);
  EXPECT_EQ(f.read<std::int32_t>(ids), (std::vector<std::int32_t>{2, 3, 4, 0, -1, -1, 3, 4}));
}

TEST(ForcedRoutes, RandomOnesAreDistinctUniformAndFreeOfTheLayout) {
  DeviceFixture f;
  constexpr std::int64_t kTokens = 4000;
  constexpr int kExperts = 10;
  const TensorView ids = f.zeros(DType::kI32, {kTokens, 4});
  const TensorView valid = f.tensor<std::uint8_t>({kTokens}, std::vector<std::uint8_t>(kTokens, 1));
  ForcedRoutesArgs args = {.ids = ids,
                           .valid = valid,
                           .num_experts = kExperts,
                           .key = philox_key(1, RandomPurpose::kTest, "routes"),
                           .step = 5};
  forced_routes(args, f.ctx);
  const std::vector<std::int32_t> all = f.read<std::int32_t>(ids);
  std::vector<int> counts(kExperts);
  for (std::size_t n = 0; n < kTokens; ++n) {
    const std::set<std::int32_t> row(all.begin() + static_cast<std::ptrdiff_t>(4 * n),
                                     all.begin() + static_cast<std::ptrdiff_t>(4 * n + 4));
    ASSERT_EQ(row.size(), 4U);
    for (const std::int32_t id : row)
      ++counts.at(static_cast<std::size_t>(id));
  }
  // Each expert is in a row with probability 0.4: mean 1600, standard deviation 31; five of them.
  for (const int count : counts)
    EXPECT_NEAR(count, 1600, 155);

  args.ids = ids.rows(0, 100);
  args.valid = valid.rows(0, 100);
  args.first_token = 1000;
  forced_routes(args, f.ctx);
  const std::vector<std::int32_t> part = f.read<std::int32_t>(args.ids);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 4000));
  args.step = 6;
  forced_routes(args, f.ctx);
  EXPECT_NE(f.read<std::int32_t>(args.ids), part);
}

TEST(ForcedRoutes, AllExperts) {
  DeviceFixture f;
  const TensorView ids = f.zeros(DType::kI32, {20, 6});
  forced_routes({.ids = ids,
                 .valid = f.tensor<std::uint8_t>({20}, std::vector<std::uint8_t>(20, 1)),
                 .num_experts = 6},
                f.ctx);
  const std::vector<std::int32_t> all = f.read<std::int32_t>(ids);
  for (std::size_t n = 0; n < 20; ++n) {
    const std::set<std::int32_t> row(all.begin() + static_cast<std::ptrdiff_t>(6 * n),
                                     all.begin() + static_cast<std::ptrdiff_t>(6 * n + 6));
    EXPECT_EQ(row.size(), 6U);
  }
}

TEST(RouterStatistics, CountsSumsAndPadding) {
  DeviceFixture f;
  // Scores (1, 3) / 4, (1, 1) / 2, padding, (3, 1) / 4; two groups of two tokens.
  const double ln3 = std::log(3.0);
  const TensorView logits = f.f64({4, 2}, {0, ln3, 5, 5, 9, 9, ln3, 0});
  const TensorView ids = f.i32({4, 1}, {1, 0, -1, 0});
  const std::vector<double> lse = {std::log(4.0), 5 + std::log(2.0), 100.0, std::log(4.0)};
  RouterStatisticsArgs args = {.counts = f.tensor<std::int64_t>({2, 2}, {9, 9, 9, 9}),
                               .score_sums = f.stale(DType::kF64, {2, 2}),
                               .counts_total = f.tensor<std::int64_t>({2}, {100, 200}),
                               .score_total = f.f64({2}, {10, 20}),
                               .z_sum = f.f64({1}, {1000}),
                               .logits = logits,
                               .lse = f.f64({4}, lse),
                               .ids = ids};
  router_statistics(args, f.ctx);
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(f.read<std::int64_t>(args.counts), (Counts{1, 1, 1, 0}));
  EXPECT_EQ(f.read<std::int64_t>(args.counts_total), (Counts{102, 201}));
  test::expect_close(f.values(args.score_sums), {0.75, 1.25, 0.75, 0.25}, kClosedFormF64, "sums");
  test::expect_close(f.values(args.score_total), {11.5, 21.5}, kClosedFormF64, "total");
  test::expect_close(f.values(args.z_sum),
                     {1000 + lse[0] * lse[0] + lse[1] * lse[1] + lse[3] * lse[3]}, kClosedFormF64,
                     "z_sum");

  // Sigmoid scores over their sum: sigmoid(0) = 1/2, sigmoid(log 3) = 3/4.
  args.gate = RouterGate::kSigmoid;
  router_statistics(args, f.ctx);
  test::expect_close(f.values(args.score_sums), {0.4 + 0.5, 0.6 + 0.5, 0.6, 0.4}, kClosedFormF64,
                     "sigmoid sums");
}

TEST(RouterStatistics, NoTokens) {
  DeviceFixture f;
  const TensorView counts = f.tensor<std::int64_t>({1, 2}, {7, 7});
  const TensorView score_sums = f.stale(DType::kF64, {1, 2});
  router_statistics({.counts = counts,
                     .score_sums = score_sums,
                     .counts_total = f.zeros(DType::kI64, {2}),
                     .score_total = f.zeros(DType::kF64, {2}),
                     .z_sum = f.zeros(DType::kF64, {1}),
                     .logits = f.zeros(DType::kF64, {0, 2}),
                     .lse = f.zeros(DType::kF64, {0}),
                     .ids = f.zeros(DType::kI32, {0, 1})},
                    f.ctx);
  EXPECT_EQ(f.read<std::int64_t>(counts), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(f.values(score_sums), (std::vector<double>{0, 0}));
}

TEST(RouterBackward, PaddingHasNoGradient) {
  DeviceFixture f;
  const TensorView grad = f.stale(DType::kF64, {2, 2});
  router_backward({.grad_logits = grad,
                   .grad_weights = f.f64({2, 1}, {1, 1}),
                   .balance = f.f64({1, 2}, {1, 2}),
                   .logits = f.f64({2, 2}, {0, 1, 0, 1}),
                   .lse = f.f64({2}, {std::log(1 + std::exp(1.0)), 0}),
                   .ids = f.i32({2, 1}, {1, -1}),
                   .rule = {},
                   .z_coefficient = 0.1},
                  f.ctx);
  EXPECT_EQ(f.values(grad.rows(1, 2)), (std::vector<double>{0, 0}));
  EXPECT_NE(f.values(grad)[0], 0.0);
}

}  // namespace
}  // namespace ulmus::ops
