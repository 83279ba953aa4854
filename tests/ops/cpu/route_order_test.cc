#include "ulmus/ops/route_order.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

struct Case {
  std::int64_t num_tokens;
  std::int64_t top_k;
  std::int32_t num_experts;
};
constexpr Case kCases[] = {{0, 2, 4},   {1, 1, 1},      {2, 3, 7},     {5, 8, 9},
                           {97, 4, 32}, {257, 16, 512}, {1031, 3, 17}, {13, 2, 127}};

enum class Load { kRandom, kOneExpert };

std::vector<Output> run(const Case& c, Load load, DeviceFixture& f) {
  const std::int64_t num_routes = c.num_tokens * c.top_k;
  std::vector<std::int32_t> ids = DeviceFixture::integers(num_routes, c.num_experts + 1, "ids");
  for (std::int32_t& id : ids) {
    if (load == Load::kOneExpert) id = c.num_experts - 1;
    if (id == c.num_experts) id = -1;
  }
  const TensorView expert_begin = f.zeros(DType::kI32, {c.num_experts + 1});
  const TensorView row_of_route = f.zeros(DType::kI32, {c.num_tokens, c.top_k});
  const TensorView route_of_row =
      f.i32({num_routes}, std::vector<std::int32_t>(static_cast<std::size_t>(num_routes), -9));
  route_order({.expert_begin = expert_begin,
               .row_of_route = row_of_route,
               .route_of_row = route_of_row,
               .ids = f.i32({c.num_tokens, c.top_k}, ids)},
              f.ctx);
  return {{"expert_begin", test::values_of(f, expert_begin)},
          {"row_of_route", test::values_of(f, row_of_route)},
          {"route_of_row", test::values_of(f, route_of_row)}};
}

TEST(CpuRouteOrder, TheOraclesRows) {
  for (const Case& c : kCases) {
    for (const Load load : {Load::kRandom, Load::kOneExpert}) {
      test::expect_like_oracle(test::shape_name({c.num_tokens, c.top_k, c.num_experts}),
                               test::Bits::kOfAnyThreadCount,
                               [&](DeviceFixture& f) { return run(c, load, f); });
    }
  }
}

TEST(CpuRouteOrder, MoreThreadsThanRoutes) {
  DeviceFixture oracle(Backend::kRef);
  DeviceFixture f(Backend::kCpu, 7);
  const std::vector<Output> expected = run({2, 2, 3}, Load::kRandom, oracle);
  const std::vector<Output> actual = run({2, 2, 3}, Load::kRandom, f);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(actual[i].values, expected[i].values);
}

}  // namespace
}  // namespace ulmus::ops
