#include "ulmus/ops/norm_total.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/device_fixture.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// {norm_sq, first_bad} of three tensors with 2, 0 and 1 blocks.
std::vector<double> total(const std::vector<double>& norm_sums) {
  DeviceFixture f;
  const TensorView totals = f.stale(DType::kF64, {2});
  norm_total({.norm_sq = totals.rows(0, 1),
              .first_bad = totals.rows(1, 2),
              .norm_sums = f.f64({3}, norm_sums),
              .tensor_begin = f.tensor<std::int64_t>({4}, {0, 2, 2, 3})},
             f.ctx);
  return f.values(totals);
}

TEST(NormTotal, SumsInAscendingOrder) {
  // (2^53 + 1) + 1 stays 2^53 in f64; in another order it would be 2^53 + 2.
  EXPECT_EQ(total({0x1p53, 1, 1}), (std::vector<double>{0x1p53, kInf}));
  EXPECT_EQ(total({1, 1, 0x1p53}), (std::vector<double>{0x1p53 + 2, kInf}));
}

TEST(NormTotal, NamesTheFirstTensorThatIsNotFinite) {
  EXPECT_EQ(total({1, kInf, kNan})[1], 0.0);
  EXPECT_EQ(total({1, 1, kNan})[1], 2.0);
}

TEST(NormTotal, ARankWithoutABlockAddsNothing) {
  DeviceFixture f;
  const TensorView totals = f.stale(DType::kF64, {2});
  norm_total({.norm_sq = totals.rows(0, 1),
              .first_bad = totals.rows(1, 2),
              .norm_sums = f.zeros(DType::kF64, {0}),
              .tensor_begin = f.tensor<std::int64_t>({2}, {0, 0})},
             f.ctx);
  EXPECT_EQ(f.values(totals), (std::vector<double>{0, kInf}));
}

}  // namespace
}  // namespace ulmus::ops
