#include "ulmus/ops/route_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using Ints = std::vector<std::int32_t>;

class RouteOrderTest : public testing::Test {
 protected:
  /// Runs the operation and compares with a stable sort of the routes by expert.
  void check(std::int64_t num_tokens, std::int64_t top_k, int num_experts, const Ints& ids) {
    DeviceFixture f(Backend::kRef, 2);
    const std::int64_t num_routes = num_tokens * top_k;
    const TensorView expert_begin = f.zeros(DType::kI32, {num_experts + 1});
    const TensorView row_of_route = f.zeros(DType::kI32, {num_tokens, top_k});
    const TensorView route_of_row = f.i32({num_routes}, Ints(ids.size(), -777));
    route_order({.expert_begin = expert_begin,
                 .row_of_route = row_of_route,
                 .route_of_row = route_of_row,
                 .ids = f.i32({num_tokens, top_k}, ids)},
                f.ctx);

    const auto id = [&](std::int32_t route) { return ids[static_cast<std::size_t>(route)]; };
    Ints sorted(ids.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::erase_if(sorted, [&](std::int32_t route) { return id(route) < 0; });
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](std::int32_t a, std::int32_t b) { return id(a) < id(b); });
    Ints expected_begin;
    for (std::int32_t e = 0; e <= num_experts; ++e) {
      expected_begin.push_back(static_cast<std::int32_t>(
          std::count_if(sorted.begin(), sorted.end(), [&](auto route) { return id(route) < e; })));
    }
    Ints expected_row(ids.size(), -1);
    for (std::size_t row = 0; row < sorted.size(); ++row) {
      expected_row[static_cast<std::size_t>(sorted[row])] = static_cast<std::int32_t>(row);
    }
    sorted.resize(ids.size(), -777);  // rows beyond those in use are left alone
    EXPECT_EQ(f.read<std::int32_t>(expert_begin), expected_begin);
    EXPECT_EQ(f.read<std::int32_t>(row_of_route), expected_row);
    EXPECT_EQ(f.read<std::int32_t>(route_of_row), sorted);
  }
};

TEST_F(RouteOrderTest, ByHand) {
  DeviceFixture f;
  const TensorView expert_begin = f.zeros(DType::kI32, {4});
  const TensorView row_of_route = f.zeros(DType::kI32, {3, 2});
  const TensorView route_of_row = f.i32({6}, Ints(6, -777));
  route_order({.expert_begin = expert_begin,
               .row_of_route = row_of_route,
               .route_of_row = route_of_row,
               .ids = f.i32({3, 2}, {2, 0, -1, -1, 0, 2})},
              f.ctx);
  EXPECT_EQ(f.read<std::int32_t>(expert_begin), (Ints{0, 2, 2, 4}));
  EXPECT_EQ(f.read<std::int32_t>(row_of_route), (Ints{2, 0, -1, -1, 1, 3}));
  EXPECT_EQ(f.read<std::int32_t>(route_of_row), (Ints{1, 4, 0, 5, -777, -777}));
}

TEST_F(RouteOrderTest, RandomIdsAsAStableSort) {
  check(101, 4, 7, DeviceFixture::integers(404, 7, "ids"));
  check(50, 1, 64, DeviceFixture::integers(50, 64, "sparse"));
  check(33, 3, 1, Ints(99, 0));
}

TEST_F(RouteOrderTest, HalfOfTheTokensToOneExpertOthersEmpty) {
  Ints ids;
  for (std::int32_t n = 0; n < 64; ++n)
    ids.push_back(n % 2 == 0 ? 3 : n % 3);
  check(64, 1, 9, ids);
}

TEST_F(RouteOrderTest, Padding) {
  Ints ids = DeviceFixture::integers(60, 5, "padding");
  for (std::size_t n = 0; n < 20; n += 3)
    ids[3 * n] = ids[3 * n + 1] = ids[3 * n + 2] = -1;
  check(20, 3, 5, ids);
  check(4, 2, 3, Ints(8, -1));
}

TEST_F(RouteOrderTest, NoTokens) { check(0, 2, 3, {}); }

TEST_F(RouteOrderTest, ScratchHoldsACountForEachThreadAndExpert) {
  EXPECT_GE(route_order_scratch_bytes(10, 3), 10 * 3 * 4);
  EXPECT_EQ(route_order_scratch_bytes(16, 1), 64);
}

}  // namespace
}  // namespace ulmus::ops
