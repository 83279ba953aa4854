#include "ulmus/ops/balance_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"
#include "ulmus/ops/router.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;
using Scores = std::vector<std::vector<double>>;  ///< [tokens][experts], rows sum to 1

/// What the public operations make of a table of scores: logits = log(score), the K largest chosen.
struct Balance {
  double loss = 0.0;
  double largest_share = 0.0;  ///< largest count over mean count
  std::vector<double> fractions{};
  std::vector<double> mean_scores{};
};

class BalanceTest : public testing::Test {
 protected:
  /// ids given, or chosen when empty
  Balance balance_of(const Scores& scores, std::int64_t top_k,
                     const std::vector<std::int32_t>& given_ids = {}) {
    const auto tokens = static_cast<std::int64_t>(scores.size());
    const auto experts = static_cast<std::int64_t>(scores[0].size());
    std::vector<double> flat;
    for (const auto& row : scores) {
      for (const double p : row)
        flat.push_back(std::log(p));
    }
    DeviceFixture f;
    const TensorView logits = f.f64({tokens, experts}, flat);
    const TensorView ids = f.zeros(DType::kI32, {tokens, top_k});
    const std::vector<std::uint8_t> all(scores.size(), 1);
    router_select(
        {.ids = ids, .logits = logits, .bias = {}, .valid = f.tensor<std::uint8_t>({tokens}, all)},
        f.ctx);
    if (!given_ids.empty()) {
      f.device->copy_to_device(ids, std::span<const std::int32_t>(given_ids));
    }
    const TensorView lse = f.zeros(DType::kF64, {tokens});
    router_weights({.weights = f.zeros(DType::kF64, {tokens, top_k}),
                    .lse = lse,
                    .logits = logits,
                    .ids = ids,
                    .rule = {}},
                   f.ctx);
    const TensorView counts = f.zeros(DType::kI64, {1, experts});
    const TensorView score_sums = f.zeros(DType::kF64, {1, experts});
    router_statistics({.counts = counts,
                       .score_sums = score_sums,
                       .counts_total = f.zeros(DType::kI64, {experts}),
                       .score_total = f.zeros(DType::kF64, {experts}),
                       .z_sum = f.zeros(DType::kF64, {1}),
                       .logits = logits,
                       .lse = lse,
                       .ids = ids},
                      f.ctx);
    const TensorView loss = f.zeros(DType::kF64, {1});
    balance_coefficients({.coefficients = f.zeros(DType::kF64, {1, experts}),
                          .loss_sum = loss,
                          .counts = counts,
                          .score_sums = score_sums,
                          .previous = {},
                          .step_tokens = static_cast<double>(tokens),
                          .weight = 1.0},
                         f.ctx);
    Balance balance{.loss = f.values(loss)[0]};
    for (const std::int64_t count : f.read<std::int64_t>(counts)) {
      const double fraction = static_cast<double>(count) / static_cast<double>(tokens * top_k);
      balance.fractions.push_back(fraction);
      balance.largest_share =
          std::max(balance.largest_share, fraction * static_cast<double>(experts));
    }
    for (const double sum : f.values(score_sums)) {
      balance.mean_scores.push_back(sum / static_cast<double>(tokens));
    }
    return balance;
  }

  /// The limit e -> 0 of a loss that is linear in e.
  double limit_of(const std::function<Scores(double)>& table, std::int64_t top_k) {
    constexpr double kSmall = 1.0 / 1024.0;
    return 2.0 * balance_of(table(kSmall), top_k).loss -
           balance_of(table(2.0 * kSmall), top_k).loss;
  }
};

/// x of the tokens sure of expert 0, the others nearly undecided in favour of expert 1.
Scores gerrymandered(int sure, int undecided, double e) {
  Scores scores(static_cast<std::size_t>(sure), {1.0, 0.0});
  scores.resize(static_cast<std::size_t>(sure + undecided), {0.5 - e, 0.5 + e});
  return scores;
}

/// A of N experts get all routes, evenly; the score of a token lies on its K winners and, nearly as
/// much each, on the D = N - A dead experts.
Scores live_and_dead(int experts, int live, int top_k, double e) {
  const int dead = experts - live;
  Scores scores;
  for (int t = 0; t < live; ++t) {
    std::vector<double> row(static_cast<std::size_t>(experts), 0.0);
    for (int k = 0; k < top_k; ++k) {
      row[static_cast<std::size_t>((t * top_k + k) % live)] =
          (1.0 + dead * e) / static_cast<double>(dead + top_k);
    }
    for (int d = live; d < experts; ++d) {
      row[static_cast<std::size_t>(d)] = (1.0 - top_k * e) / static_cast<double>(dead + top_k);
    }
    double sum = 0.0;
    for (const double p : row)
      sum += p;
    EXPECT_NEAR(sum, 1.0, 1e-14);  // G10, G11
    scores.push_back(row);
  }
  return scores;
}

TEST_F(BalanceTest, LossIsOnePlusCovariance) {  // G1
  Scores scores;
  const std::vector<double> normals = DeviceFixture::normals({12, 5}, "scores");
  for (std::size_t t = 0; t < 12; ++t) {
    std::vector<double> row;
    double sum = 0.0;
    for (std::size_t e = 0; e < 5; ++e)
      row.push_back(std::exp(normals[5 * t + e]));
    for (const double p : row)
      sum += p;
    for (double& p : row)
      p /= sum;
    scores.push_back(row);
  }
  const Balance balance = balance_of(scores, 2);
  double expected = 1.0;
  for (std::size_t e = 0; e < 5; ++e) {
    expected += 5.0 * (balance.fractions[e] - 0.2) * (balance.mean_scores[e] - 0.2);
  }
  test::expect_close(balance.loss, expected, kClosedFormF64, "loss");
}

TEST_F(BalanceTest, UniformScoresGiveOneForEveryAssignment) {  // G2
  const Scores scores(4, {0.25, 0.25, 0.25, 0.25});
  test::expect_close(balance_of(scores, 1, {0, 0, 0, 0}).loss, 1.0, kClosedFormF64, "one expert");
  test::expect_close(balance_of(scores, 1, {0, 1, 1, 3}).loss, 1.0, kClosedFormF64, "mixed");
}

TEST_F(BalanceTest, ScoresEqualToFractions) {  // G3
  const Scores scores(10, {0.4, 0.3, 0.2, 0.1});
  const Balance balance = balance_of(scores, 1, {0, 0, 0, 0, 1, 1, 1, 2, 2, 3});
  test::expect_close(balance.loss, 4.0 * (0.16 + 0.09 + 0.04 + 0.01), kClosedFormF64, "loss");
}

TEST_F(BalanceTest, TwoExpertTables) {  // G4, G5
  Scores scores(2, {1.0, 0.0});
  scores.resize(6, {0.4, 0.6});
  const Balance balance = balance_of(scores, 1);
  test::expect_close(balance.fractions, {1.0 / 3, 2.0 / 3}, kClosedFormF64, "f");
  test::expect_close(balance.mean_scores, {0.6, 0.4}, kClosedFormF64, "P");
  test::expect_close(balance.largest_share, 4.0 / 3, kClosedFormF64, "I_max");
  test::expect_close(balance.loss, 14.0 / 15, kClosedFormF64, "loss");
  test::expect_close(balance_of(scores, 1, {0, 0, 0, 1, 1, 1}).loss, 1.0, kClosedFormF64,
                     "balanced by hand");
}

TEST_F(BalanceTest, ALightShareLowersTheLoss) {  // G6, G7
  const Balance balance = balance_of(gerrymandered(1, 9, 1.0 / 1024.0), 1);
  test::expect_close(balance.largest_share, 1.8, kClosedFormF64, "I_max");
  test::expect_close(balance.loss, 0.92 + 1.44 / 1024.0, kClosedFormF64, "G6 at e");
  const auto limit = [&](int sure, int undecided) {
    return limit_of([=](double e) { return gerrymandered(sure, undecided, e); }, 1);
  };
  test::expect_close(limit(1, 9), 0.92, kClosedFormF64, "G6");
  test::expect_close(limit(1, 3), 7.0 / 8, kClosedFormF64, "x = 1/4");
  test::expect_close(limit(1, 2), 8.0 / 9, kClosedFormF64, "x = 1/3");
  test::expect_close(limit(1, 1), 1.0, kClosedFormF64, "x = 1/2");
}

TEST_F(BalanceTest, DeadExpertsLowerTheLoss) {  // G8 - G11
  const auto limit = [&](int experts, int live, int top_k) {
    return limit_of([=](double e) { return live_and_dead(experts, live, top_k, e); }, top_k);
  };
  constexpr test::Tolerance kSixDigits{0.0, 5e-7, "the value is printed with six digits"};
  test::expect_close(limit(64, 16, 1), 0.081633, kSixDigits, "64, 16 live");
  test::expect_close(limit(64, 16, 1), 64.0 / (16.0 * 49.0), kClosedFormF64, "64, 16 live");
  test::expect_close(limit(64, 8, 1), 0.140351, kSixDigits, "64, 8 live");
  test::expect_close(limit(64, 32, 1), 0.060606, kSixDigits, "64, 32 live");
  test::expect_close(limit(64, 33, 1), 0.060606, kSixDigits, "64, 33 live");
  test::expect_close(limit(64, 1, 1), 1.0, kClosedFormF64, "64, 1 live");
  test::expect_close(limit(64, 64, 1), 1.0, kClosedFormF64, "64, all live");
  test::expect_close(limit(64, 16, 4), 0.307692, kSixDigits, "64, 16 live, top 4");
  test::expect_close(limit(128, 32, 4), 0.16, kClosedFormF64, "128, 32 live, top 4");
  test::expect_close(balance_of(live_and_dead(64, 16, 1, 0.01), 1).largest_share, 4.0,
                     kClosedFormF64, "I_max");
}

TEST_F(BalanceTest, UnevenLoadsWithDeadExperts) {  // G13
  const auto table = [](double e) {
    Scores scores;
    for (std::size_t live = 0; live < 4; ++live) {
      for (std::size_t i = 0; i < 4 - live; ++i) {
        std::vector<double> row(8, 0.0);
        row[live] = (1.0 + 4 * e) / 5.0;
        for (std::size_t dead = 4; dead < 8; ++dead)
          row[dead] = (1.0 - e) / 5.0;
        scores.push_back(row);
      }
    }
    return scores;
  };
  test::expect_close(limit_of(table, 1), 0.48, kClosedFormF64, "loss");
}

TEST(BalanceGradient, WithFixedAssignments) {  // G12: (N / T) p_i (f_i - f.p)
  DeviceFixture f;
  constexpr std::int64_t kTokens = 6;
  constexpr std::int64_t kExperts = 4;
  const TensorView logits = f.normal(DType::kF64, {kTokens, kExperts}, "logits");
  const TensorView ids = f.i32({kTokens, 1}, {0, 0, 0, 1, 1, 3});
  const TensorView counts = f.tensor<std::int64_t>({1, kExperts}, {3, 2, 0, 1});
  const TensorView coefficients = f.zeros(DType::kF64, {1, kExperts});
  balance_coefficients({.coefficients = coefficients,
                        .loss_sum = f.zeros(DType::kF64, {1}),
                        .counts = counts,
                        .score_sums = f.zeros(DType::kF64, {1, kExperts}),
                        .previous = {},
                        .step_tokens = kTokens,
                        .weight = 1.0},
                       f.ctx);
  const TensorView lse = f.zeros(DType::kF64, {kTokens});
  router_weights({.weights = f.zeros(DType::kF64, {kTokens, 1}),
                  .lse = lse,
                  .logits = logits,
                  .ids = ids,
                  .rule = {}},
                 f.ctx);
  const TensorView grad = f.stale(DType::kF64, {kTokens, kExperts});
  router_backward({.grad_logits = grad,
                   .grad_weights = f.zeros(DType::kF64, {kTokens, 1}),
                   .balance = coefficients,
                   .logits = logits,
                   .lse = lse,
                   .ids = ids,
                   .rule = {}},
                  f.ctx);
  const std::vector<double> fractions = {3.0 / 6, 2.0 / 6, 0.0, 1.0 / 6};
  const std::vector<double> z = f.values(logits);
  const std::vector<double> log_sums = f.values(lse);
  std::vector<double> expected;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const auto p = [&](std::size_t e) { return std::exp(z[kExperts * t + e] - log_sums[t]); };
    double mean = 0.0;
    for (std::size_t e = 0; e < kExperts; ++e)
      mean += fractions[e] * p(e);
    for (std::size_t e = 0; e < kExperts; ++e) {
      expected.push_back(4.0 / 6.0 * p(e) * (fractions[e] - mean));
    }
  }
  test::expect_close(f.values(grad), expected, kClosedFormF64, "grad_logits");
}

TEST(BalanceScopes, SequencesAreWeighedByTheirTokens) {
  DeviceFixture f;
  // Two sequences of the step: 4 valid tokens with top-2, and 1; 5 tokens in the whole step.
  const TensorView coefficients = f.stale(DType::kF64, {3, 2});
  const TensorView loss = f.f64({1}, {10.0});
  balance_coefficients({.coefficients = coefficients,
                        .loss_sum = loss,
                        .counts = f.tensor<std::int64_t>({3, 2}, {6, 2, 2, 0, 0, 0}),
                        .score_sums = f.f64({3, 2}, {3.0, 1.0, 0.4, 0.6, 0.0, 0.0}),
                        .previous = {},
                        .step_tokens = 5.0,
                        .weight = 0.1},
                       f.ctx);
  // sum_b (T_b / T) E f_b . P_b; the third sequence is all padding.
  const double first = 4.0 / 5 * 2 * (6.0 / 8 * 3.0 / 4 + 2.0 / 8 * 1.0 / 4);
  const double second = 1.0 / 5 * 2 * (1.0 * 0.4);
  test::expect_close(f.values(loss), {10.0 + first + second}, kClosedFormF64, "loss");
  test::expect_close(f.values(coefficients),
                     {0.1 * 2 * 6 / (2 * 4 * 5.0), 0.1 * 2 * 2 / (2 * 4 * 5.0),
                      0.1 * 2 * 2 / (2 * 1 * 5.0), 0, 0, 0},
                     kClosedFormF64, "coefficients");
}

TEST(BalanceScopes, StepUsesThePreviousCountsAndStartsUniform) {
  DeviceFixture f;
  const TensorView counts = f.tensor<std::int64_t>({1, 4}, {5, 0, 0, 0});
  const TensorView sums = f.f64({1, 4}, {0.5, 0.3, 0.2, 1.0});  // 2 of the step's 8 tokens
  const TensorView coefficients = f.stale(DType::kF64, {1, 4});
  const TensorView loss = f.zeros(DType::kF64, {1});
  BalanceCoefficientsArgs args = {.coefficients = coefficients,
                                  .loss_sum = loss,
                                  .counts = counts,
                                  .score_sums = sums,
                                  .previous = f.zeros(DType::kI64, {4}),
                                  .source = BalanceCounts::kOfPreviousStep,
                                  .step_tokens = 8.0,
                                  .weight = 2.0};
  balance_coefficients(args, f.ctx);
  test::expect_close(f.values(loss), {2.0 / 8}, kClosedFormF64, "uniform: share of the tokens");
  test::expect_close(f.values(coefficients), std::vector<double>(4, 2.0 / 8), kClosedFormF64,
                     "uniform coefficients");
  args.previous = f.tensor<std::int64_t>({4}, {8, 4, 4, 0});
  args.loss_sum = f.zeros(DType::kF64, {1});
  balance_coefficients(args, f.ctx);
  test::expect_close(f.values(args.loss_sum), {4.0 / 8 * (0.5 * 0.5 + 0.25 * 0.3 + 0.25 * 0.2)},
                     kClosedFormF64, "loss");
  test::expect_close(f.values(coefficients), {2 * 0.25, 2 * 0.125, 2 * 0.125, 0}, kClosedFormF64,
                     "coefficients");
}

// The logged value of the step scope is the exact one: E f.P of the totals over all micro-batches.
// Two micro-batches whose own losses are 14/15-like and 1 make another number together.
TEST(BalanceScopes, TheLoggedValueOfAStepComesFromTheTotals) {
  DeviceFixture f;
  const TensorView counts_total = f.zeros(DType::kI64, {2});
  const TensorView score_total = f.zeros(DType::kF64, {2});
  const auto add_micro_batch = [&](const std::vector<double>& scores,
                                   const std::vector<std::int32_t>& ids) {
    const auto tokens = static_cast<std::int64_t>(ids.size());
    std::vector<double> logits;
    for (const double p : scores)
      logits.push_back(std::log(p));
    router_statistics({.counts = f.zeros(DType::kI64, {1, 2}),
                       .score_sums = f.zeros(DType::kF64, {1, 2}),
                       .counts_total = counts_total,
                       .score_total = score_total,
                       .z_sum = f.zeros(DType::kF64, {1}),
                       .logits = f.f64({tokens, 2}, logits),
                       .lse = f.zeros(DType::kF64, {tokens}),
                       .ids = f.i32({tokens, 1}, ids)},
                      f.ctx);
  };
  add_micro_batch({1, 0, 1, 0}, {0, 0});
  add_micro_batch({0.4, 0.6, 0.4, 0.6, 0.4, 0.6, 0.4, 0.6}, {1, 1, 1, 1});
  const std::vector<std::int64_t> counts = f.read<std::int64_t>(counts_total);
  const std::vector<double> scores = f.values(score_total);
  const double tokens = 6.0;
  const double logged = 2.0 * (static_cast<double>(counts[0]) / tokens * scores[0] / tokens +
                               static_cast<double>(counts[1]) / tokens * scores[1] / tokens);
  test::expect_close(logged, 14.0 / 15, kClosedFormF64, "logged");
}

}  // namespace
}  // namespace ulmus::ops
