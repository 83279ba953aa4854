#include "ulmus/ops/matmul.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;

// A = [1 2 3; 4 5 6], B = [7 8; 9 10; 11 12], A B = [58 64; 139 154].
const std::vector<double> kA = {1, 2, 3, 4, 5, 6};
const std::vector<double> kATransposed = {1, 4, 2, 5, 3, 6};
const std::vector<double> kB = {7, 8, 9, 10, 11, 12};
const std::vector<double> kBTransposed = {7, 9, 11, 8, 10, 12};
const std::vector<double> kProduct = {58, 64, 139, 154};

class MatmulTest : public testing::TestWithParam<DType> {
 protected:
  TensorView floats(const Shape& shape, const std::vector<double>& values) {
    return f_.floats(GetParam(), shape, values);
  }
  DeviceFixture f_;
};

TEST_P(MatmulTest, ThreeForms) {
  const TensorView out = f_.stale(GetParam(), {2, 2});
  matmul({.out = out, .a = floats({2, 3}, kA), .b = floats({2, 3}, kBTransposed)}, f_.ctx);
  EXPECT_EQ(f_.values(out), kProduct);
  matmul({.out = out, .a = floats({2, 3}, kA), .b = floats({3, 2}, kB), .form = MatmulForm::kNN},
         f_.ctx);
  EXPECT_EQ(f_.values(out), kProduct);
  matmul({.out = out,
          .a = floats({3, 2}, kATransposed),
          .b = floats({3, 2}, kB),
          .form = MatmulForm::kTN,
          .accumulate = Accumulate::kAdd},
         f_.ctx);
  EXPECT_EQ(f_.values(out), (std::vector<double>{116, 128, 278, 308}));
}

TEST_P(MatmulTest, RowsMayHaveGaps) {
  // The operands are columns of wider matrices; what lies between stays as it is.
  const TensorView a = floats({2, 5}, {9, 1, 2, 3, 9, 9, 4, 5, 6, 9}).narrow(1, 1, 4);
  const TensorView b = floats({3, 3}, {7, 8, 9, 9, 10, 9, 11, 12, 9}).narrow(1, 0, 2);
  const TensorView wide = f_.stale(GetParam(), {2, 4});
  matmul({.out = wide.narrow(1, 1, 3), .a = a, .b = b, .form = MatmulForm::kNN}, f_.ctx);
  constexpr double kStale = DeviceFixture::kStale;
  EXPECT_EQ(f_.values(wide),
            (std::vector<double>{kStale, 58, 64, kStale, kStale, 139, 154, kStale}));
}

TEST_P(MatmulTest, ColumnsOfOneMatrixAreApart) {
  const TensorView packed = floats({2, 4}, {1, 2, 0, 0, 3, 4, 0, 0});
  matmul({.out = packed.narrow(1, 2, 4),
          .a = packed.narrow(1, 0, 2),
          .b = floats({2, 2}, {1, 0, 0, 1}),
          .form = MatmulForm::kNN},
         f_.ctx);
  EXPECT_EQ(f_.values(packed), (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST_P(MatmulTest, EmptySums) {
  const TensorView out = f_.stale(GetParam(), {2, 2});
  const MatmulArgs args = {
      .out = out, .a = f_.zeros(GetParam(), {2, 0}), .b = f_.zeros(GetParam(), {2, 0})};
  matmul(args, f_.ctx);
  EXPECT_EQ(f_.values(out), std::vector<double>(4, 0.0));
  matmul({.out = f_.zeros(GetParam(), {0, 2}),
          .a = f_.zeros(GetParam(), {0, 3}),
          .b = floats({2, 3}, kBTransposed)},
         f_.ctx);
}

TEST_P(MatmulTest, BooksUsefulWork) {
  matmul({.out = f_.zeros(GetParam(), {5, 7}),
          .a = f_.zeros(GetParam(), {5, 3}),
          .b = f_.zeros(GetParam(), {7, 3})},
         f_.ctx);
  EXPECT_EQ(f_.meter.useful_flops(), 2.0 * 5 * 7 * 3);
  const double element = GetParam() == DType::kF32 ? 4.0 : 8.0;
  EXPECT_EQ(f_.meter.entries()[0].moved_bytes, element * (35 + 15 + 21));
}

INSTANTIATE_TEST_SUITE_P(, MatmulTest, testing::Values(DType::kF32, DType::kF64),
                         [](const auto& param) { return std::string(name_of(param.param)); });

}  // namespace
}  // namespace ulmus::ops
