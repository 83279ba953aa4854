#include "ulmus/ops/route_rows.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"
#include "tests/support/grad_check.h"
#include "ulmus/ops/route_order.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using Ints = std::vector<std::int32_t>;

/// The route order of some ids over a buffer of N K rows.
class RouteRowsTest : public testing::Test {
 protected:
  void order(std::int64_t num_tokens, int top_k, int num_experts, const Ints& ids) {
    tokens_ = num_tokens;
    top_k_ = top_k;
    capacity_ = num_tokens * top_k;
    const TensorView expert_begin = f_.zeros(DType::kI32, {num_experts + 1});
    row_of_route_ = f_.zeros(DType::kI32, {num_tokens, top_k});
    route_of_row_ = f_.zeros(DType::kI32, {capacity_});
    route_order({.expert_begin = expert_begin,
                 .row_of_route = row_of_route_,
                 .route_of_row = route_of_row_,
                 .ids = f_.i32({num_tokens, top_k}, ids)},
                f_.ctx);
    row_count_ = expert_begin.rows(num_experts, num_experts + 1);
    begin_ = f_.read<std::int32_t>(expert_begin);
  }
  TensorView gather(const TensorView& rows) {
    const TensorView grouped = f_.stale(rows.dtype(), {capacity_, rows.dim(1)});
    gather_rows({.grouped = grouped,
                 .rows = rows,
                 .route_of_row = route_of_row_,
                 .row_count = row_count_,
                 .top_k = top_k_,
                 .booked_rows = begin_.back()},
                f_.ctx);
    return grouped;
  }
  TensorView combine(const TensorView& grouped, const TensorView& weights = {}) {
    const TensorView out = f_.stale(grouped.dtype(), {tokens_, grouped.dim(1)});
    combine_rows({.out = out,
                  .grouped = grouped,
                  .weights = weights,
                  .row_of_route = row_of_route_,
                  .booked_rows = begin_.back()},
                 f_.ctx);
    return out;
  }
  /// Small integers, so that every sum is exact.
  TensorView integers(const Shape& shape, std::string_view stream) {
    const Ints drawn = DeviceFixture::integers(shape.numel(), 17, stream);
    std::vector<double> values;
    for (const std::int32_t value : drawn)
      values.push_back(value - 8);
    return f_.floats(DType::kF32, shape, values);
  }

  DeviceFixture f_;
  std::int64_t tokens_ = 0;
  std::int64_t capacity_ = 0;
  int top_k_ = 1;
  TensorView row_of_route_;
  TensorView route_of_row_;
  TensorView row_count_;
  Ints begin_;
};

TEST_F(RouteRowsTest, ByHand) {
  order(3, 2, 3, {2, 0, -1, -1, 0, 2});
  const TensorView rows = f_.f64({3, 2}, {1, 2, 3, 4, 5, 6});
  const TensorView grouped = gather(rows);
  constexpr double kStale = DeviceFixture::kStale;
  EXPECT_EQ(f_.values(grouped),
            (std::vector<double>{1, 2, 5, 6, 1, 2, 5, 6, kStale, kStale, kStale, kStale}));
  EXPECT_EQ(f_.values(combine(grouped)), (std::vector<double>{2, 4, 0, 0, 10, 12}));
  const TensorView weights = f_.f64({3, 2}, {10, 1, 7, 7, 100, 0.5});
  EXPECT_EQ(f_.values(combine(grouped, weights)), (std::vector<double>{11, 22, 0, 0, 502.5, 603}));
}

TEST_F(RouteRowsTest, RoundTripThroughExperts) {
  // Experts multiply their rows by id + 1.
  const Ints ids = DeviceFixture::integers(60, 7, "round trip");
  order(60, 1, 7, ids);
  const TensorView rows = integers({60, 5}, "rows");
  std::vector<double> values = f_.values(gather(rows));
  for (std::size_t e = 0; e < 7; ++e) {
    for (std::int32_t i = begin_[e] * 5; i < begin_[e + 1] * 5; ++i) {
      values[static_cast<std::size_t>(i)] *= static_cast<double>(e + 1);
    }
  }
  const std::vector<double> back = f_.values(combine(f_.floats(DType::kF32, {60, 5}, values)));
  const std::vector<double> before = f_.values(rows);
  for (std::size_t i = 0; i < back.size(); ++i) {
    ASSERT_EQ(back[i], before[i] * (ids[i / 5] + 1));
  }
}

TEST_F(RouteRowsTest, CombineIsTheTransposeOfGather) {
  Ints skewed;
  for (std::int32_t n = 0; n < 40; ++n) {
    skewed.insert(skewed.end(), {n % 2 == 0 ? 4 : n % 3, 5});  // experts 3, 6, 7 stay empty
  }
  for (std::size_t n = 0; n < 80; n += 10)
    skewed[n] = skewed[n + 1] = -1;
  order(40, 2, 8, skewed);
  const TensorView x = integers({40, 3}, "x");
  const TensorView g = integers({80, 3}, "g");
  const std::int64_t used = begin_.back();
  const double forward =
      test::inner(f_.values(gather(x).rows(0, used)), f_.values(g.rows(0, used)));
  const double backward = test::inner(f_.values(x), f_.values(combine(g)));
  EXPECT_EQ(forward, backward);
  EXPECT_NE(forward, 0.0);
}

TEST_F(RouteRowsTest, ScalarsGoThereAndBack) {
  order(3, 2, 3, {2, 0, -1, -1, 0, 2});
  const TensorView of_route = f_.f64({3, 2}, {1, 2, 3, 4, 5, 6});
  const TensorView of_row = f_.stale(DType::kF64, {6});
  gather_scalars({.of_row = of_row,
                  .of_route = of_route,
                  .route_of_row = route_of_row_,
                  .row_count = row_count_},
                 f_.ctx);
  constexpr double kStale = DeviceFixture::kStale;
  EXPECT_EQ(f_.values(of_row), (std::vector<double>{2, 5, 1, 6, kStale, kStale}));
  const TensorView back = f_.stale(DType::kF64, {3, 2});
  collect_scalars({.of_route = back, .of_row = of_row, .row_of_route = row_of_route_}, f_.ctx);
  EXPECT_EQ(f_.values(back), (std::vector<double>{1, 2, 0, 0, 5, 6}));
}

TEST_F(RouteRowsTest, NoTokens) {
  order(0, 2, 3, {});
  EXPECT_EQ(combine(gather(f_.zeros(DType::kF32, {0, 4}))).numel(), 0);
}

}  // namespace
}  // namespace ulmus::ops
