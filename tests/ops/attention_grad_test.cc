#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/grad_check.h"
#include "ulmus/ops/attention.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::inner;

struct Case {
  std::string name;
  std::int64_t sequences = 1;
  std::int64_t tokens = 6;  ///< of one sequence
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t window = 0;
  std::vector<std::int32_t> first_key{};  ///< of one sequence; empty: zeros
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class AttentionGradTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionGradTest, QueriesKeysAndValues) {
  const Case& c = GetParam();
  DeviceFixture f;
  const std::int64_t rows = c.sequences * c.tokens;
  const Shape q_shape = {rows, c.heads, 5};
  const Shape k_shape = {rows, c.key_heads, 5};
  std::vector<std::int32_t> first_key;
  for (std::int64_t n = 0; n < rows; ++n) {
    first_key.push_back(c.first_key.empty() ? 0
                                            : c.first_key[static_cast<std::size_t>(n % c.tokens)]);
  }
  const TensorView q = f.normal(DType::kF64, q_shape, "q");
  const TensorView k = f.normal(DType::kF64, k_shape, "k");
  const TensorView v = f.normal(DType::kF64, k_shape, "v");
  const TensorView out = f.zeros(DType::kF64, q_shape);
  const TensorView lse = f.zeros(DType::kF64, {rows, c.heads});
  const TensorView first = f.i32({rows}, first_key);
  const TensorView u = f.normal(DType::kF64, q_shape, "u");
  const auto objective = [&] {
    attention_forward({.out = out,
                       .lse = lse,
                       .q = q,
                       .k = k,
                       .v = v,
                       .first_key = first,
                       .num_sequences = c.sequences,
                       .window = c.window,
                       .scale = 0.6},
                      f.ctx);
    return inner(f.values(out), f.values(u));
  };
  objective();
  const TensorView grad_q = f.stale(DType::kF64, q_shape);
  const TensorView grad_k = f.stale(DType::kF64, k_shape);
  const TensorView grad_v = f.stale(DType::kF64, k_shape);
  attention_backward({.grad_q = grad_q,
                      .grad_k = grad_k,
                      .grad_v = grad_v,
                      .grad_out = u,
                      .q = q,
                      .k = k,
                      .v = v,
                      .out = out,
                      .lse = lse,
                      .first_key = first,
                      .num_sequences = c.sequences,
                      .window = c.window,
                      .scale = 0.6},
                     f.ctx);
  test::check_gradients(
      f, {{"q", q, f.values(grad_q)}, {"k", k, f.values(grad_k)}, {"v", v, f.values(grad_v)}},
      objective);
}

INSTANTIATE_TEST_SUITE_P(
    , AttentionGradTest,
    testing::Values(Case{.name = "Causal", .sequences = 2, .heads = 2, .key_heads = 2},
                    Case{.name = "GroupedHeads", .heads = 6, .key_heads = 2},
                    Case{.name = "Window", .sequences = 2, .tokens = 9, .window = 3},
                    Case{.name = "Documents", .heads = 2, .first_key = {0, 0, 2, 2, 2, 5}},
                    Case{.name = "AllTogether",
                         .sequences = 2,
                         .tokens = 8,
                         .heads = 4,
                         .key_heads = 2,
                         .window = 2,
                         .first_key = {0, 0, 0, 3, 3, 3, 3, 3}}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace ulmus::ops
