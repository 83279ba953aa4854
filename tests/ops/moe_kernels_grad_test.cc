#include "ulmus/ops/moe_kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/device_fixture.h"
#include "tests/support/grad_check.h"

// Backward calls against central differences, f64, on the oracle; ids are held fixed.
namespace ulmus::ops {
namespace {

using test::check_gradients;
using test::DeviceFixture;
using test::inner;

constexpr DType kF64 = DType::kF64;

struct RouterCase {
  std::string name;
  RouterRule rule;
};
void PrintTo(const RouterCase& c, std::ostream* out) { *out << c.name; }

class RouterGradTest : public testing::TestWithParam<RouterCase> {
 protected:
  static constexpr std::int64_t kTokens = 6;
  static constexpr std::int64_t kExperts = 5;
  static constexpr std::int64_t kTopK = 3;
  static constexpr double kZ = 0.35;

  /// <weights, u> + sum balance * normalised score + z sum lse^2, through the public operations.
  double objective() {
    router_weights(
        {.weights = weights_, .lse = lse_, .logits = logits_, .ids = ids_, .rule = rule_}, f_.ctx);
    const TensorView score_sums = f_.zeros(kF64, {2, kExperts});
    const TensorView z_sum = f_.zeros(kF64, {1});
    router_statistics({.counts = f_.zeros(DType::kI64, {2, kExperts}),
                       .score_sums = score_sums,
                       .counts_total = f_.zeros(DType::kI64, {kExperts}),
                       .score_total = f_.zeros(kF64, {kExperts}),
                       .z_sum = z_sum,
                       .logits = logits_,
                       .lse = lse_,
                       .ids = ids_,
                       .gate = rule_.gate},
                      f_.ctx);
    return inner(f_.values(weights_), f_.values(u_)) +
           inner(f_.values(score_sums), f_.values(balance_)) + kZ * f_.values(z_sum)[0];
  }

  DeviceFixture f_;
  RouterRule rule_ = GetParam().rule;
  TensorView logits_ = f_.normal(kF64, {kTokens, kExperts}, "logits");
  TensorView ids_ =
      f_.i32({kTokens, kTopK}, {0, 3, 1, 4, 2, 0, 1, 2, 3, -1, -1, -1, 2, 4, 3, 0, 1, 4});
  TensorView weights_ = f_.zeros(kF64, {kTokens, kTopK});
  TensorView lse_ = f_.zeros(kF64, {kTokens});
  TensorView u_ = f_.normal(kF64, {kTokens, kTopK}, "u");
  TensorView balance_ = f_.normal(kF64, {2, kExperts}, "balance");  // two groups of three tokens
};

TEST_P(RouterGradTest, Logits) {
  objective();
  const TensorView grad = f_.stale(kF64, {kTokens, kExperts});
  router_backward({.grad_logits = grad,
                   .grad_weights = u_,
                   .balance = balance_,
                   .logits = logits_,
                   .lse = lse_,
                   .ids = ids_,
                   .rule = rule_,
                   .z_coefficient = kZ},
                  f_.ctx);
  check_gradients(f_, {{"logits", logits_, f_.values(grad)}}, [&] { return objective(); });
}

RouterCase router_case(std::string name, RouterGate gate, RouteWeights weights, double scale) {
  return {std::move(name), {.gate = gate, .weights = weights, .scale = scale}};
}

INSTANTIATE_TEST_SUITE_P(
    , RouterGradTest,
    testing::Values(
        router_case("SoftmaxRaw", RouterGate::kSoftmax, RouteWeights::kRaw, 1.0),
        router_case("SoftmaxSumToOne", RouterGate::kSoftmax, RouteWeights::kSumToOne, 1.0),
        router_case("SoftmaxSumToK", RouterGate::kSoftmax, RouteWeights::kSumToK, 0.7),
        router_case("SigmoidRaw", RouterGate::kSigmoid, RouteWeights::kRaw, 1.3),
        router_case("SigmoidSumToOne", RouterGate::kSigmoid, RouteWeights::kSumToOne, 2.5),
        router_case("SigmoidSumToK", RouterGate::kSigmoid, RouteWeights::kSumToK, 1.0)),
    [](const auto& param) { return param.param.name; });

// Expert 1 has no rows; row 5 belongs to nobody.
TEST(GroupedMatmulGrad, RowsAndWeights) {
  DeviceFixture f;
  const TensorView begin = f.i32({4}, {0, 2, 2, 5});
  const TensorView rows = f.normal(kF64, {6, 3}, "rows");
  const TensorView weight = f.normal(kF64, {3, 4, 3}, "weight");
  const TensorView out = f.zeros(kF64, {6, 4});
  const TensorView u = f.normal(kF64, {6, 4}, "u");
  const TensorView grad_rows = f.zeros(kF64, {6, 3});
  const TensorView grad_weight = f.zeros(kF64, {3, 4, 3});
  grouped_matmul({.out = grad_rows,
                  .rows = u,
                  .weight = weight,
                  .left = {},
                  .expert_begin = begin,
                  .form = MatmulForm::kNN},
                 f.ctx);
  grouped_matmul({.out = grad_weight,
                  .rows = rows,
                  .weight = {},
                  .left = u,
                  .expert_begin = begin,
                  .form = MatmulForm::kTN},
                 f.ctx);
  check_gradients(
      f, {{"rows", rows, f.values(grad_rows)}, {"weight", weight, f.values(grad_weight)}}, [&] {
        grouped_matmul(
            {.out = out, .rows = rows, .weight = weight, .left = {}, .expert_begin = begin}, f.ctx);
        return inner(f.values(out.rows(0, 5)), f.values(u.rows(0, 5)));
      });
}

// The gradient of a weighted combine: rows get weight times gradient, weights the inner product.
TEST(CombineGrad, RowsAndWeights) {
  DeviceFixture f;
  const TensorView grouped = f.normal(kF64, {5, 3}, "grouped");
  const TensorView weights = f.normal(kF64, {3, 2}, "weights");
  const TensorView row_of_route = f.i32({3, 2}, {4, 0, -1, 2, 1, 3});
  const TensorView out = f.zeros(kF64, {3, 3});
  const std::vector<double> u = DeviceFixture::normals({3, 3}, "u");
  // Independent of the operation: loops over the routes.
  std::vector<double> grad_grouped(15, 0.0);
  std::vector<double> grad_weights(6, 0.0);
  const std::vector<std::int32_t> rows = f.read<std::int32_t>(row_of_route);
  const std::vector<double> w = f.values(weights);
  const std::vector<double> x = f.values(grouped);
  for (std::size_t route = 0; route < rows.size(); ++route) {
    if (rows[route] < 0) continue;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::size_t element = static_cast<std::size_t>(rows[route]) * 3 + d;
      grad_grouped[element] += w[route] * u[route / 2 * 3 + d];
      grad_weights[route] += x[element] * u[route / 2 * 3 + d];
    }
  }
  check_gradients(f, {{"grouped", grouped, grad_grouped}, {"weights", weights, grad_weights}}, [&] {
    combine_rows({.out = out, .grouped = grouped, .weights = weights, .row_of_route = row_of_route},
                 f.ctx);
    return inner(f.values(out), u);
  });
}

}  // namespace
}  // namespace ulmus::ops
