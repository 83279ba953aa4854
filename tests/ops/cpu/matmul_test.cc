#include "ulmus/ops/matmul.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/ops/cpu/oracle_pair.h"

namespace ulmus::ops {
namespace {

using test::OraclePair;
using test::Twin;

struct Sizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
void PrintTo(const Sizes& sizes, std::ostream* out) {
  *out << sizes.m << "x" << sizes.n << "x" << sizes.k;
}

class CpuMatmulTest : public testing::TestWithParam<std::tuple<Sizes, MatmulForm>> {
 protected:
  /// Operands and output are windows of wider matrices, so that every stride is seen.
  Twin wide(OraclePair& pair, std::int64_t rows, std::int64_t columns, std::string_view stream) {
    return pair.normal({rows, columns + 3}, stream).narrow(1, 1, columns + 1);
  }
};

TEST_P(CpuMatmulTest, EqualsTheOracle) {
  const auto& [sizes, form] = GetParam();
  for (const int num_threads : {1, 2, 3}) {
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      OraclePair pair(num_threads);
      const bool a_turned = form == MatmulForm::kTN;
      const bool b_turned = form == MatmulForm::kNT;
      const Twin a = wide(pair, a_turned ? sizes.k : sizes.m, a_turned ? sizes.m : sizes.k, "a");
      const Twin b = wide(pair, b_turned ? sizes.n : sizes.k, b_turned ? sizes.k : sizes.n, "b");
      const Twin whole = accumulate == Accumulate::kAdd ? pair.normal({sizes.m, sizes.n + 3}, "out")
                                                        : pair.stale({sizes.m, sizes.n + 3});
      const Twin out = whole.narrow(1, 1, sizes.n + 1);
      matmul({out.fast, a.fast, b.fast, form, accumulate}, pair.fast.ctx);
      matmul({out.exact, a.exact, b.exact, form, accumulate}, pair.exact.ctx);
      pair.expect_same(whole, test::kReduceF32, "out");
    }
  }
}

// 1, odd, prime, just over a tile of 6 x 16, of 32 columns, of 128 terms and of 288 rows; few rows
// against a wide b; the last one goes to the library.
INSTANTIATE_TEST_SUITE_P(
    Shapes, CpuMatmulTest,
    testing::Combine(testing::Values(Sizes{1, 1, 1}, Sizes{1, 33, 17}, Sizes{2, 64, 9},
                                     Sizes{3, 8, 129}, Sizes{4, 48, 65}, Sizes{5, 31, 8},
                                     Sizes{6, 33, 64}, Sizes{7, 17, 7}, Sizes{13, 47, 131},
                                     Sizes{17, 7, 13}, Sizes{65, 40, 257}, Sizes{293, 33, 37},
                                     Sizes{64, 5, 3}, Sizes{67, 257, 263}, Sizes{131, 259, 257},
                                     Sizes{4, 521, 131}, Sizes{167, 521, 131}),
                     testing::Values(MatmulForm::kNT, MatmulForm::kNN, MatmulForm::kTN)));

TEST(CpuMatmul, NothingFromNothing) {
  OraclePair pair(2);
  for (const MatmulForm form : {MatmulForm::kNT, MatmulForm::kNN, MatmulForm::kTN}) {
    const bool a_turned = form == MatmulForm::kTN;
    const bool b_turned = form == MatmulForm::kNT;
    const TensorView a = pair.fast.zeros(DType::kF32, a_turned ? Shape{0, 40} : Shape{40, 0});
    const TensorView b = pair.fast.zeros(DType::kF32, b_turned ? Shape{50, 0} : Shape{0, 50});
    const TensorView out = pair.fast.stale(DType::kF32, {40, 50});
    matmul({out, a, b, form, Accumulate::kAdd}, pair.fast.ctx);
    EXPECT_EQ(pair.fast.values(out), std::vector<double>(2000, test::DeviceFixture::kStale));
    matmul({out, a, b, form, Accumulate::kOverwrite}, pair.fast.ctx);
    EXPECT_EQ(pair.fast.values(out), std::vector<double>(2000, 0.0));
  }
}

TEST(CpuMatmul, OverwritesWhatIsNotANumber) {
  OraclePair pair(2);
  const std::vector<double> nan(static_cast<std::size_t>(300 * 300), std::nan(""));
  const TensorView x = pair.fast.normal(DType::kF32, {300, 300}, "x");
  for (const MatmulForm form : {MatmulForm::kNT, MatmulForm::kNN, MatmulForm::kTN}) {
    const TensorView out = pair.fast.floats(DType::kF32, {300, 300}, nan);
    matmul({.out = out, .a = x, .b = x, .form = form}, pair.fast.ctx);
    for (const double value : pair.fast.values(out))
      ASSERT_FALSE(std::isnan(value));
  }
}

TEST(CpuMatmul, SameBitsEveryTime) {
  for (const std::int64_t size : {40, 301}) {
    std::vector<double> first;
    for (int run = 0; run < 4; ++run) {
      OraclePair pair(3);
      const TensorView x = pair.fast.normal(DType::kF32, {size, size}, "x");
      const TensorView out = pair.fast.stale(DType::kF32, {size, size});
      matmul({.out = out, .a = x, .b = x}, pair.fast.ctx);
      if (run == 0) first = pair.fast.values(out);
      EXPECT_EQ(pair.fast.values(out), first);
    }
  }
}

}  // namespace
}  // namespace ulmus::ops
