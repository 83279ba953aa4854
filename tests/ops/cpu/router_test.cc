#include "ulmus/ops/router.h"

#include <limits>
#include <set>

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;
using test::Scale;

struct Case {
  std::int64_t num_tokens;
  int num_experts;
  std::int64_t top_k;
};
constexpr Case kCases[] = {{0, 4, 2},     {1, 1, 1},      {3, 3, 3},     {33, 7, 2},
                           {97, 8, 3},    {301, 9, 4},    {1031, 32, 4}, {257, 64, 8},
                           {61, 127, 11}, {131, 512, 16}, {13, 33, 33},  {5, 1031, 40}};

std::string name_of_case(const Case& c) {
  return test::shape_name({c.num_tokens, c.num_experts, c.top_k});
}

/// Every fifth token is padding.
TensorView validity(std::int64_t num_tokens, DeviceFixture& f) {
  std::vector<std::uint8_t> valid(static_cast<std::size_t>(num_tokens), 1);
  for (std::size_t n = 4; n < valid.size(); n += 5)
    valid[n] = 0;
  return f.tensor({num_tokens}, valid);
}

TensorView some_ids(const Case& c, DeviceFixture& f) {
  const TensorView ids = f.zeros(DType::kI32, {c.num_tokens, c.top_k});
  forced_routes(
      {.ids = ids, .valid = validity(c.num_tokens, f), .num_experts = c.num_experts, .key = {3, 1}},
      f.ctx);
  return ids;
}

/// Values on a coarse grid, so that many are equal, with all that floats can be among them.
std::vector<double> tied_logits(const Case& c) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double special[] = {-kInfinity, 0.0, -0.0, std::numeric_limits<double>::quiet_NaN(), 1e30};
  std::vector<double> logits;
  for (const std::int32_t value :
       DeviceFixture::integers(c.num_tokens * c.num_experts, 23, "tied")) {
    logits.push_back(value < 5 ? special[value] : 0.5 * (value - 14));
  }
  return logits;
}

TEST(CpuRouter, SelectsTheOraclesExperts) {
  for (const Case& c : kCases) {
    const auto select = [&](const std::vector<double>& logits, DeviceFixture& f) {
      const TensorView ids = f.zeros(DType::kI32, {c.num_tokens, c.top_k});
      router_select({.ids = ids,
                     .logits = f.floats(DType::kF32, {c.num_tokens, c.num_experts}, logits),
                     .bias = {},
                     .valid = validity(c.num_tokens, f)},
                    f.ctx);
      return std::vector<Output>{{"ids", test::values_of(f, ids)}};
    };
    test::expect_like_oracle(
        name_of_case(c) + " normal", test::Bits::kOfAnyThreadCount, [&](DeviceFixture& f) {
          return select(DeviceFixture::normals({c.num_tokens, c.num_experts}, "logits"), f);
        });
    test::expect_like_oracle(name_of_case(c) + " tied", test::Bits::kOfAnyThreadCount,
                             [&](DeviceFixture& f) { return select(tied_logits(c), f); });
  }
}

/// What the bias makes of one token's logits, in f64.
std::vector<double> biased_keys(const std::vector<double>& logits, std::size_t first,
                                const std::vector<double>& bias, RouterGate gate) {
  double sum = 0.0;
  for (std::size_t e = 0; e < bias.size(); ++e)
    sum += std::exp(logits[first + e]);
  std::vector<double> keys;
  for (std::size_t e = 0; e < bias.size(); ++e) {
    const double z = logits[first + e];
    keys.push_back(bias[e] +
                   (gate == RouterGate::kSoftmax ? std::exp(z) / sum : 1.0 / (1.0 + std::exp(-z))));
  }
  return keys;
}

/// In f32 two keys may change places when they differ by rounding only: each choice's key must be
/// that of the oracle's choice.
TEST(CpuRouter, SelectsByBiasedScores) {
  for (const Case& c : kCases) {
    for (const RouterGate gate : {RouterGate::kSoftmax, RouterGate::kSigmoid}) {
      const auto num_experts = static_cast<std::size_t>(c.num_experts);
      const Shape shape = {c.num_tokens, c.num_experts};
      std::vector<double> logits;
      std::vector<double> bias;
      const auto select = [&](DeviceFixture& f) {
        const TensorView view = f.normal(DType::kF32, shape, "logits");
        const TensorView bias_view = f.normal(DType::kF32, {c.num_experts}, "bias", 0.05);
        const TensorView ids = f.zeros(DType::kI32, {c.num_tokens, c.top_k});
        router_select({.ids = ids,
                       .logits = view,
                       .bias = bias_view,
                       .valid = validity(c.num_tokens, f),
                       .gate = gate},
                      f.ctx);
        logits = f.values(view);
        bias = f.values(bias_view);
        return f.read<std::int32_t>(ids);
      };
      DeviceFixture oracle(Backend::kRef, 1);
      DeviceFixture fixture(Backend::kCpu, 2);
      const std::vector<std::int32_t> expected = select(oracle);
      const std::vector<std::int32_t> actual = select(fixture);
      const auto top_k = static_cast<std::size_t>(c.top_k);
      for (std::size_t n = 0; n * top_k < expected.size(); ++n) {
        const std::vector<double> keys = biased_keys(logits, n * num_experts, bias, gate);
        std::set<std::int32_t> distinct;
        for (std::size_t i = n * top_k; i < (n + 1) * top_k; ++i) {
          if (expected[i] < 0) {
            EXPECT_EQ(actual[i], -1);
            continue;
          }
          distinct.insert(actual[i]);
          test::expect_close(keys.at(static_cast<std::size_t>(actual[i])),
                             keys.at(static_cast<std::size_t>(expected[i])), test::kElementF32,
                             name_of_case(c));
        }
        EXPECT_TRUE(expected[n * top_k] < 0 || distinct.size() == top_k);
      }
    }
  }
}

TEST(CpuRouter, BiasedTiesGoToTheLowestIndex) {
  for (const RouterGate gate : {RouterGate::kSoftmax, RouterGate::kSigmoid}) {
    DeviceFixture f(Backend::kCpu, 1);
    const TensorView ids = f.zeros(DType::kI32, {1, 20});
    std::vector<double> bias(40, 0.25);
    bias[38] = 0.5;
    router_select({.ids = ids,
                   .logits = f.floats(DType::kF32, {1, 40}, std::vector<double>(40, 0.75)),
                   .bias = f.floats(DType::kF32, {40}, bias),
                   .valid = validity(1, f),
                   .gate = gate},
                  f.ctx);
    std::vector<std::int32_t> expected = {38};
    for (std::int32_t e = 0; e < 19; ++e)
      expected.push_back(e);
    EXPECT_EQ(f.read<std::int32_t>(ids), expected);
  }
}

constexpr RouterGate kGates[] = {RouterGate::kSoftmax, RouterGate::kSigmoid};
constexpr RouteWeights kWeights[] = {RouteWeights::kRaw, RouteWeights::kSumToOne,
                                     RouteWeights::kSumToK};

std::vector<Output> weights_and_gradient(const Case& c, const RouterRule& rule, double scale,
                                         double shift, DeviceFixture& f) {
  const Shape shape = {c.num_tokens, c.num_experts};
  std::vector<double> values = DeviceFixture::normals(shape, "logits", scale);
  for (double& value : values)
    value += shift;
  const TensorView logits = f.floats(DType::kF32, shape, values);
  const TensorView ids = some_ids(c, f);
  const TensorView weights = f.stale(DType::kF32, {c.num_tokens, c.top_k});
  const TensorView lse = f.stale(DType::kF32, {c.num_tokens});
  router_weights({.weights = weights, .lse = lse, .logits = logits, .ids = ids, .rule = rule},
                 f.ctx);
  const std::int64_t num_groups = c.num_tokens % 3 == 0 ? 3 : 1;
  const TensorView grad_logits = f.stale(DType::kF32, shape);
  router_backward({.grad_logits = grad_logits,
                   .grad_weights = f.normal(DType::kF32, {c.num_tokens, c.top_k}, "grad_weights"),
                   .balance = f.normal(DType::kF32, {num_groups, c.num_experts}, "balance", 0.1),
                   .logits = logits,
                   .lse = lse,
                   .ids = ids,
                   .rule = rule,
                   .z_coefficient = 0.01},
                  f.ctx);
  return {{"weights", f.values(weights), test::kElementF32},
          {"lse", f.values(lse), test::kElementF32},
          {"grad_logits", f.values(grad_logits), test::kReduceF32, Scale::kLargest}};
}

TEST(CpuRouter, WeightsAndGradientLikeTheOracle) {
  for (const Case& c : kCases) {
    for (const RouterGate gate : kGates) {
      for (const RouteWeights weights : kWeights) {
        const RouterRule rule = {.gate = gate, .weights = weights, .scale = 2.5};
        const auto body = [&](DeviceFixture& f) {
          return weights_and_gradient(c, rule, 1.5, 0.0, f);
        };
        test::expect_like_oracle(name_of_case(c), test::Bits::kOfAnyThreadCount, body);
      }
    }
  }
}

/// Scores of e^-100 and below, which f32 cannot hold; their ratios are plain numbers.
TEST(CpuRouter, RatiosOfVanishingScores) {
  for (const RouterGate gate : kGates) {
    const RouterRule rule = {.gate = gate, .weights = RouteWeights::kSumToOne, .scale = 1.0};
    test::expect_like_oracle("small", test::Bits::kOfAnyThreadCount, [&](DeviceFixture& f) {
      const TensorView logits =
          f.floats(DType::kF32, {1, 5},
                   {gate == RouterGate::kSoftmax ? 0.0 : -150.0, -120.0, -121.0, -122.0, -130.0});
      const TensorView ids = f.i32({1, 2}, {1, 2});
      const TensorView weights = f.stale(DType::kF32, {1, 2});
      const TensorView lse = f.stale(DType::kF32, {1});
      router_weights({.weights = weights, .lse = lse, .logits = logits, .ids = ids, .rule = rule},
                     f.ctx);
      const TensorView grad = f.stale(DType::kF32, {1, 5});
      router_backward({.grad_logits = grad,
                       .grad_weights = f.floats(DType::kF32, {1, 2}, {1.0, -0.5}),
                       .balance = f.floats(DType::kF32, {1, 5}, {0.1, 0.2, 0.3, 0.4, 0.5}),
                       .logits = logits,
                       .lse = lse,
                       .ids = ids,
                       .rule = rule},
                      f.ctx);
      return std::vector<Output>{{"weights", f.values(weights), test::kElementF32},
                                 {"lse", f.values(lse), test::kElementF32},
                                 {"grad", f.values(grad), test::kReduceF32, Scale::kLargest}};
    });
  }
}

}  // namespace
}  // namespace ulmus::ops
