#include "ulmus/ops/route_rows.h"

#include "tests/ops/cpu/against_oracle.h"
#include "ulmus/ops/cpu/streaming.h"
#include "ulmus/ops/elementwise.h"
#include "ulmus/ops/route_order.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

struct Case {
  std::int64_t num_tokens;
  int top_k;
  std::int32_t num_experts;
  std::int64_t width;
};
constexpr Case kCases[] = {{0, 2, 4, 8},   {1, 1, 1, 1},     {3, 2, 5, 7},     {5, 3, 4, 8},
                           {31, 4, 8, 71}, {257, 8, 64, 64}, {61, 4, 32, 129}, {1031, 2, 16, 33}};

struct Routes {
  TensorView expert_begin;
  TensorView row_of_route;
  TensorView route_of_row;
  TensorView row_count;
};

Routes routes(const Case& c, DeviceFixture& f) {
  const std::int64_t num_routes = c.num_tokens * c.top_k;
  std::vector<std::int32_t> ids = DeviceFixture::integers(num_routes, c.num_experts + 1, "ids");
  for (std::int32_t& id : ids) {
    if (id == c.num_experts) id = -1;
  }
  Routes r = {.expert_begin = f.zeros(DType::kI32, {c.num_experts + 1}),
              .row_of_route = f.zeros(DType::kI32, {c.num_tokens, c.top_k}),
              .route_of_row = f.zeros(DType::kI32, {num_routes}),
              .row_count = {}};
  route_order({.expert_begin = r.expert_begin,
               .row_of_route = r.row_of_route,
               .route_of_row = r.route_of_row,
               .ids = f.i32({c.num_tokens, c.top_k}, ids)},
              f.ctx);
  r.row_count = r.expert_begin.rows(c.num_experts, c.num_experts + 1);
  return r;
}

std::vector<Output> run(const Case& c, DeviceFixture& f) {
  const std::int64_t num_routes = c.num_tokens * c.top_k;
  const Routes r = routes(c, f);
  const TensorView rows = f.normal(DType::kF32, {c.num_tokens, c.width}, "rows");
  const TensorView grouped = f.stale(DType::kF32, {num_routes, c.width});
  gather_rows({.grouped = grouped,
               .rows = rows,
               .route_of_row = r.route_of_row,
               .row_count = r.row_count,
               .top_k = c.top_k},
              f.ctx);
  const TensorView weights = f.normal(DType::kF32, {c.num_tokens, c.top_k}, "weights");
  const TensorView values = f.normal(DType::kF32, {num_routes, c.width}, "values");
  const TensorView sum = f.stale(DType::kF32, {c.num_tokens, c.width});
  const TensorView weighted = f.stale(DType::kF32, {c.num_tokens, c.width});
  combine_rows({.out = sum, .grouped = values, .weights = {}, .row_of_route = r.row_of_route},
               f.ctx);
  combine_rows(
      {.out = weighted, .grouped = values, .weights = weights, .row_of_route = r.row_of_route},
      f.ctx);
  const TensorView of_row = f.stale(DType::kF32, {num_routes});
  gather_scalars({.of_row = of_row,
                  .of_route = weights,
                  .route_of_row = r.route_of_row,
                  .row_count = r.row_count},
                 f.ctx);
  const TensorView of_route = f.stale(DType::kF32, {c.num_tokens, c.top_k});
  collect_scalars({.of_route = of_route, .of_row = of_row, .row_of_route = r.row_of_route}, f.ctx);
  return {{"grouped", f.values(grouped)},
          {"sum", f.values(sum), test::kElementF32, test::Scale::kLargest},
          {"weighted", f.values(weighted), test::kElementF32, test::Scale::kLargest},
          {"of_row", f.values(of_row)},
          {"of_route", f.values(of_route)}};
}

TEST(CpuRouteRows, LikeTheOracle) {
  for (const Case& c : kCases) {
    const std::string name = test::shape_name({c.num_tokens, c.top_k, c.num_experts, c.width});
    const auto body = [&](DeviceFixture& f) { return run(c, f); };
    test::expect_like_oracle(name, test::Bits::kOfAnyThreadCount, body);
  }
}

// A large output is written past the caches: the same bits as in small parts.
TEST(CpuRouteRows, OutputsLargerThanTheCaches) {
  constexpr std::int64_t kWidth = 1031;
  // 64 MiB read and written in a call; parts stay below what either kernel streams.
  constexpr std::int64_t kRows = 4 * cpu::kStreamedBytes / kWidth / 8 + 1;
  constexpr std::int64_t kParts = 5;
  DeviceFixture f(Backend::kCpu, 2, 6 * cpu::kStreamedBytes);
  const TensorView few = f.normal(DType::kF32, {100, kWidth}, "few");
  const TensorView index = f.i32({kRows}, DeviceFixture::integers(kRows, 100, "index"));
  std::vector<std::int32_t> rows = DeviceFixture::integers(kRows * 3, 101, "rows");
  for (std::int32_t& row : rows)
    --row;
  const TensorView row_of_route = f.i32({kRows, 3}, rows);
  const TensorView weights = f.normal(DType::kF32, {kRows, 3}, "weights");
  const TensorView whole = f.zeros(DType::kF32, {kRows, kWidth});
  const TensorView parts = f.zeros(DType::kF32, {kRows, kWidth});
  const auto whole_and_parts = [&](const auto& call) {
    // What is not written differs.
    fill({.x = whole, .value = DeviceFixture::kStale}, f.ctx);
    fill({.x = parts, .value = 0.0}, f.ctx);
    call(whole, 0, kRows);
    for (std::int64_t part = 0; part < kParts; ++part)
      call(parts, kRows * part / kParts, kRows * (part + 1) / kParts);
  };
  const auto gather = [&](const TensorView& to, std::int64_t begin, std::int64_t end) {
    const auto count = static_cast<std::int32_t>(end - begin);
    gather_rows({.grouped = to.rows(begin, end),
                 .rows = few,
                 .route_of_row = index.rows(begin, end),
                 .row_count = f.i32({1}, {count})},
                f.ctx);
  };
  const auto combine = [&](const TensorView& to, std::int64_t begin, std::int64_t end) {
    combine_rows({.out = to.rows(begin, end),
                  .grouped = few,
                  .weights = weights.rows(begin, end),
                  .row_of_route = row_of_route.rows(begin, end)},
                 f.ctx);
  };
  whole_and_parts(gather);
  EXPECT_TRUE(f.read<float>(whole) == f.read<float>(parts));
  whole_and_parts(combine);
  EXPECT_TRUE(f.read<float>(whole) == f.read<float>(parts));
}

/// The oracle on all rows at once, so the fast kernel streams what it is compared with.
TEST(CpuRouteRows, ALargeCombineIsThatOfTheOracle) {
  constexpr std::int64_t kWidth = 1031;
  constexpr std::int64_t kRows = 4 * cpu::kStreamedBytes / kWidth / 8 + 1;
  const auto combined = [&](Backend backend) {
    DeviceFixture f(backend, 2, 3 * cpu::kStreamedBytes);
    const TensorView few = f.normal(DType::kF32, {100, kWidth}, "few");
    std::vector<std::int32_t> rows = DeviceFixture::integers(kRows * 3, 101, "rows");
    for (std::int32_t& row : rows)
      --row;
    const TensorView out = f.stale(DType::kF32, {kRows, kWidth});
    combine_rows({.out = out,
                  .grouped = few,
                  .weights = f.normal(DType::kF32, {kRows, 3}, "weights"),
                  .row_of_route = f.i32({kRows, 3}, rows)},
                 f.ctx);
    return f.values(out);
  };
  test::expect_close_to_largest(combined(Backend::kCpu), combined(Backend::kRef), test::kElementF32,
                                "combined");
}

TEST(CpuRouteRows, CombineAddsInAscendingK) {
  // In f32 (1e8 + 1) - 1e8 = 0 but (1e8 - 1e8) + 1 = 1: the order shows.
  DeviceFixture f(Backend::kCpu, 2);
  const TensorView out = f.stale(DType::kF32, {2, 9});
  std::vector<double> grouped;
  for (const double value : {1e8, 1.0, -1e8})
    grouped.insert(grouped.end(), 9, value);
  combine_rows({.out = out,
                .grouped = f.floats(DType::kF32, {3, 9}, grouped),
                .weights = {},
                .row_of_route = f.i32({2, 3}, {0, 1, 2, 0, 2, 1})},
               f.ctx);
  const std::vector<double> values = f.values(out);
  for (std::size_t d = 0; d < 9; ++d) {
    EXPECT_EQ(values[d], 0.0);
    EXPECT_EQ(values[9 + d], 1.0);
  }
}

}  // namespace
}  // namespace ulmus::ops
