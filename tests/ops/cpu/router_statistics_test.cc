#include "tests/ops/cpu/against_oracle.h"
#include "ulmus/ops/elementwise.h"
#include "ulmus/ops/router.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;
using test::Scale;

struct Case {
  std::int64_t num_groups;
  std::int64_t group_tokens;
  int num_experts;
  std::int64_t top_k;
};
constexpr Case kCases[] = {{1, 0, 4, 2},    {1, 1, 1, 1},    {1, 2, 3, 1},   {3, 1, 7, 2},
                           {2, 5, 9, 4},    {1, 131, 32, 4}, {3, 67, 33, 3}, {8, 64, 64, 8},
                           {5, 13, 127, 9}, {2, 31, 512, 16}};

TensorView some_ids(const Case& c, DeviceFixture& f) {
  const std::int64_t num_tokens = c.num_groups * c.group_tokens;
  std::vector<std::uint8_t> valid(static_cast<std::size_t>(num_tokens), 1);
  for (std::size_t n = 3; n < valid.size(); n += 4)
    valid[n] = 0;
  const TensorView ids = f.zeros(DType::kI32, {num_tokens, c.top_k});
  forced_routes({.ids = ids,
                 .valid = f.tensor({num_tokens}, valid),
                 .num_experts = c.num_experts,
                 .key = {3, 1}},
                f.ctx);
  return ids;
}

std::vector<Output> run(const Case& c, RouterGate gate, DeviceFixture& f) {
  const std::int64_t num_tokens = c.num_groups * c.group_tokens;
  const TensorView logits = f.normal(DType::kF32, {num_tokens, c.num_experts}, "logits", 1.5);
  const TensorView ids = some_ids(c, f);
  const TensorView lse = f.zeros(DType::kF32, {num_tokens});
  router_weights({.weights = f.zeros(DType::kF32, {num_tokens, c.top_k}),
                  .lse = lse,
                  .logits = logits,
                  .ids = ids,
                  .rule = {}},
                 f.ctx);
  const Shape groups = {c.num_groups, c.num_experts};
  const TensorView counts = f.zeros(DType::kI64, groups);
  fill({.x = counts, .value = -77.0}, f.ctx);
  const TensorView score_sums = f.stale(DType::kF64, groups);
  const TensorView counts_total = f.zeros(DType::kI64, {c.num_experts});
  fill({.x = counts_total, .value = 5.0}, f.ctx);
  const TensorView score_total =
      f.f64({c.num_experts}, DeviceFixture::normals({c.num_experts}, "total"));
  const TensorView z_sum = f.f64({1}, {0.25});
  router_statistics({.counts = counts,
                     .score_sums = score_sums,
                     .counts_total = counts_total,
                     .score_total = score_total,
                     .z_sum = z_sum,
                     .logits = logits,
                     .lse = lse,
                     .ids = ids,
                     .gate = gate},
                    f.ctx);
  return {{"counts", test::values_of(f, counts)},
          {"counts_total", test::values_of(f, counts_total)},
          {"score_sums", f.values(score_sums), test::kElementF32},
          {"score_total", f.values(score_total), test::kElementF32, Scale::kLargest},
          {"z_sum", f.values(z_sum), test::kElementF32}};
}

TEST(CpuRouterStatistics, LikeTheOracle) {
  for (const Case& c : kCases) {
    for (const RouterGate gate : {RouterGate::kSoftmax, RouterGate::kSigmoid}) {
      test::expect_like_oracle(
          test::shape_name({c.num_groups, c.group_tokens, c.num_experts, c.top_k}),
          test::Bits::kOfThreadCount, [&](DeviceFixture& f) { return run(c, gate, f); });
    }
  }
}

TEST(CpuRouterStatistics, MoreThreadsThanTokens) {
  const Case c = {1, 3, 9, 2};
  DeviceFixture oracle(Backend::kRef);
  DeviceFixture f(Backend::kCpu, 8);
  const std::vector<Output> expected = run(c, RouterGate::kSoftmax, oracle);
  const std::vector<Output> actual = run(c, RouterGate::kSoftmax, f);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    test::expect_close_to_largest(actual[i].values, expected[i].values, expected[i].tolerance,
                                  expected[i].name);
  }
}

}  // namespace
}  // namespace ulmus::ops
