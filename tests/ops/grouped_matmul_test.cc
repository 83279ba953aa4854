#include "ulmus/ops/grouped_matmul.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
constexpr double kStale = DeviceFixture::kStale;

// Three experts with rows 0..1, none, 1..3 of five; k = 2, n = 1.
class GroupedMatmulTest : public testing::Test {
 protected:
  DeviceFixture f_;
  TensorView begin_ = f_.i32({4}, {0, 1, 1, 3});
  TensorView rows_ = f_.f64({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
};

TEST_F(GroupedMatmulTest, RowsTimesTransposedWeights) {
  const TensorView out = f_.stale(DType::kF64, {5, 1});
  grouped_matmul({.out = out,
                  .rows = rows_,
                  .weight = f_.f64({3, 1, 2}, {1, 10, 7, 7, 100, 1000}),
                  .left = {},
                  .expert_begin = begin_,
                  .booked_rows = 3},
                 f_.ctx);
  EXPECT_EQ(f_.values(out), (std::vector<double>{21, 4300, 6500, kStale, kStale}));
  EXPECT_EQ(f_.meter.useful_flops(), 2.0 * 3 * 1 * 2);
}

TEST_F(GroupedMatmulTest, RowsTimesWeights) {
  const TensorView out = f_.stale(DType::kF64, {5, 1});
  grouped_matmul({.out = out,
                  .rows = rows_,
                  .weight = f_.f64({3, 2, 1}, {1, 10, 7, 7, 100, 1000}),
                  .left = {},
                  .expert_begin = begin_,
                  .form = MatmulForm::kNN,
                  .booked_rows = 3},
                 f_.ctx);
  EXPECT_EQ(f_.values(out), (std::vector<double>{21, 4300, 6500, kStale, kStale}));
}

TEST_F(GroupedMatmulTest, WeightGradientAddsAndSkipsEmptyExperts) {
  const TensorView out = f_.f64({3, 1, 2}, {100, 200, 300, 400, 500, 600});
  grouped_matmul({.out = out,
                  .rows = rows_,
                  .weight = {},
                  .left = f_.f64({5, 1}, {2, 3, 4, 5, 6}),
                  .expert_begin = begin_,
                  .form = MatmulForm::kTN,
                  .booked_rows = 3},
                 f_.ctx);
  EXPECT_EQ(f_.values(out), (std::vector<double>{102, 204, 300, 400, 529, 636}));
}

TEST_F(GroupedMatmulTest, NoRowsAtAll) {
  const TensorView out = f_.f64({2, 1, 2}, {1, 2, 3, 4});
  const TensorView none = f_.i32({3}, {0, 0, 0});
  grouped_matmul({.out = out,
                  .rows = f_.zeros(DType::kF64, {0, 2}),
                  .weight = {},
                  .left = f_.zeros(DType::kF64, {0, 1}),
                  .expert_begin = none,
                  .form = MatmulForm::kTN},
                 f_.ctx);
  EXPECT_EQ(f_.values(out), (std::vector<double>{1, 2, 3, 4}));
  grouped_matmul({.out = f_.zeros(DType::kF64, {0, 1}),
                  .rows = f_.zeros(DType::kF64, {0, 2}),
                  .weight = out,
                  .left = {},
                  .expert_begin = none},
                 f_.ctx);
}

}  // namespace
}  // namespace ulmus::ops
