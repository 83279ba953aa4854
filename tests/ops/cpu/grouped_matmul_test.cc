#include "ulmus/ops/grouped_matmul.h"

#include <gtest/gtest.h>

#include <numeric>
#include <tuple>

#include "tests/ops/cpu/oracle_pair.h"

namespace ulmus::ops {
namespace {

using test::OraclePair;
using test::Twin;

/// Rows of every expert, and the widths of a row before and after.
struct Groups {
  std::vector<std::int32_t> rows;
  std::int64_t in;
  std::int64_t out;
};
void PrintTo(const Groups& groups, std::ostream* out) {
  *out << testing::PrintToString(groups.rows) << " " << groups.in << "->" << groups.out;
}

class CpuGroupedMatmulTest : public testing::TestWithParam<std::tuple<Groups, MatmulForm>> {};

TEST_P(CpuGroupedMatmulTest, EqualsTheOracle) {
  const auto& [groups, form] = GetParam();
  const auto num_experts = static_cast<std::int64_t>(groups.rows.size());
  std::vector<std::int32_t> begin(groups.rows.size() + 1);
  std::partial_sum(groups.rows.begin(), groups.rows.end(), begin.begin() + 1);
  const std::int64_t capacity = begin.back() + 5;  // rows without an expert are left alone
  for (const int num_threads : {1, 2, 3}) {
    OraclePair pair(num_threads);
    const Twin rows = pair.normal({capacity, groups.in}, "rows");
    const Twin expert_begin = pair.i32({num_experts + 1}, begin);
    GroupedMatmulArgs fast;
    fast.form = form;
    fast.booked_rows = begin.back();
    GroupedMatmulArgs exact = fast;
    Twin out;
    if (form == MatmulForm::kTN) {
      out = pair.normal({num_experts, groups.out, groups.in}, "out");
      const Twin left = pair.normal({capacity, groups.out}, "left");
      fast.left = left.fast;
      exact.left = left.exact;
    } else {
      out = pair.stale({capacity, groups.out});
      const Twin weight =
          pair.normal(form == MatmulForm::kNT ? Shape{num_experts, groups.out, groups.in}
                                              : Shape{num_experts, groups.in, groups.out},
                      "weight");
      fast.weight = weight.fast;
      exact.weight = weight.exact;
    }
    fast.out = out.fast;
    fast.rows = rows.fast;
    fast.expert_begin = expert_begin.fast;
    exact.out = out.exact;
    exact.rows = rows.exact;
    exact.expert_begin = expert_begin.exact;
    grouped_matmul(fast, pair.fast.ctx);
    grouped_matmul(exact, pair.exact.ctx);
    pair.expect_same(out, test::kReduceF32, "out");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Groups, CpuGroupedMatmulTest,
    testing::Combine(testing::Values(Groups{{0, 0, 0}, 8, 8}, Groups{{1}, 1, 1},
                                     Groups{{3, 0, 1, 7}, 17, 33},
                                     Groups{{0, 300, 0, 1, 2, 0, 0, 17}, 40, 24},
                                     Groups{{64, 64, 64, 64}, 64, 80},
                                     Groups{{61, 59, 67, 71, 53}, 31, 47},
                                     Groups{{513, 0}, 128, 96}, Groups{{0, 140, 75}, 257, 263}),
                     testing::Values(MatmulForm::kNT, MatmulForm::kNN, MatmulForm::kTN)));

TEST(CpuGroupedMatmul, SameBitsEveryTime) {
  std::vector<double> first;
  for (int run = 0; run < 5; ++run) {
    OraclePair pair(3);
    const TensorView out = pair.fast.stale(DType::kF32, {700, 40});
    GroupedMatmulArgs args;
    args.out = out;
    args.rows = pair.fast.normal(DType::kF32, {700, 72}, "rows");
    args.weight = pair.fast.normal(DType::kF32, {4, 40, 72}, "weight");
    args.expert_begin = pair.fast.i32({5}, {0, 20, 520, 523, 700});
    args.booked_rows = 700;
    grouped_matmul(args, pair.fast.ctx);
    if (run == 0) first = pair.fast.values(out);
    EXPECT_EQ(pair.fast.values(out), first);
  }
}

}  // namespace
}  // namespace ulmus::ops
