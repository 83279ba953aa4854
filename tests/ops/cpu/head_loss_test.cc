#include "ulmus/ops/head_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/cpu/oracle_pair.h"

namespace ulmus::ops {
namespace {

using test::OraclePair;
using test::Twin;

struct Case {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t vocabulary;
  std::int64_t chunk_rows = 256;
  double z_coefficient = 0.0;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.rows << "x" << c.width << "x" << c.vocabulary << ", chunks of " << c.chunk_rows
       << ", z " << c.z_coefficient;
}

/// Every fifth row bears no loss.
std::vector<std::int32_t> targets(const Case& c) {
  std::vector<std::int32_t> values =
      test::DeviceFixture::integers(c.rows, static_cast<std::int32_t>(c.vocabulary), "targets");
  for (std::size_t i = 3; i < values.size(); i += 5)
    values[i] = -1;
  return values;
}

struct Tensors {
  Tensors(OraclePair& pair, const Case& c)
      : loss_sums(pair.f64({2}, {0.5, -0.25})),
        grad_x(pair.stale({c.rows, c.width})),
        grad_weight(pair.normal({c.vocabulary, c.width}, "grad_weight", 0.1)),
        x(pair.normal({c.rows, c.width}, "x")),
        weight(pair.normal({c.vocabulary, c.width}, "weight",
                           2.0 / std::sqrt(static_cast<double>(c.width)))),
        targets(pair.i32({c.rows}, ulmus::ops::targets(c))) {}
  Twin loss_sums;
  Twin grad_x;
  Twin grad_weight;
  Twin x;
  Twin weight;
  Twin targets;
};

enum class Mode { kTraining, kEvaluation };

void run(OraclePair& pair, const Case& c, const Tensors& t, Mode mode) {
  const auto call = [&](test::DeviceFixture& fixture, TensorView Twin::* side) {
    HeadLossArgs args;
    args.loss_sums = t.loss_sums.*side;
    if (mode == Mode::kTraining) {
      args.grad_x = t.grad_x.*side;
      args.grad_weight = t.grad_weight.*side;
    }
    args.x = t.x.*side;
    args.weight = t.weight.*side;
    args.targets = t.targets.*side;
    args.scale = 1.0 / static_cast<double>(c.rows + 1);
    args.z_coefficient = c.z_coefficient;
    args.chunk_rows = c.chunk_rows;
    head_loss(args, fixture.ctx);
  };
  call(pair.fast, &Twin::fast);
  call(pair.exact, &Twin::exact);
}

class CpuHeadLossTest : public testing::TestWithParam<Case> {};

TEST_P(CpuHeadLossTest, EqualsTheOracle) {
  const Case& c = GetParam();
  for (const int num_threads : {1, 2, 3}) {
    for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
      OraclePair pair(num_threads);
      const Tensors t(pair, c);
      run(pair, c, t, mode);
      test::expect_close(pair.fast.read<double>(t.loss_sums.fast),
                         pair.exact.read<double>(t.loss_sums.exact), test::kReduceF32, "loss_sums");
      pair.expect_same(t.grad_x, test::kReduceF32, "grad_x");
      pair.expect_same(t.grad_weight, test::kReduceF32, "grad_weight");
    }
  }
}

// Vocabularies: 1, odd, just over a vector, over a block of the sum; rows: 0, 1, whole and broken
// chunks.
INSTANTIATE_TEST_SUITE_P(Shapes, CpuHeadLossTest,
                         testing::Values(Case{0, 8, 10}, Case{1, 1, 1}, Case{7, 5, 9, 3},
                                         Case{17, 24, 33, 4, 1e-2}, Case{64, 16, 257, 32},
                                         Case{70, 40, 1031, 64, 1e-3},
                                         Case{300, 64, 131, 256, 1e-4}));

TEST(CpuHeadLoss, SumsDoNotDependOnThreads) {
  std::vector<double> first;
  const Case c{150, 16, 65, 64};
  for (const int num_threads : {1, 2, 3, 5}) {
    OraclePair pair(num_threads);
    const Tensors t(pair, c);
    run(pair, c, t, Mode::kTraining);
    const std::vector<double> sums = pair.fast.read<double>(t.loss_sums.fast);
    if (first.empty()) first = sums;
    EXPECT_EQ(sums, first);
  }
}

TEST(CpuHeadLoss, LargeLogitsDoNotOverflow) {
  OraclePair pair(2);
  const Case c{9, 8, 50};
  Tensors t(pair, c);
  t.x = pair.normal({9, 8}, "x", 100.0);
  run(pair, c, t, Mode::kTraining);
  test::expect_close(pair.fast.read<double>(t.loss_sums.fast),
                     pair.exact.read<double>(t.loss_sums.exact), test::kReduceF32, "loss_sums");
  pair.expect_same(t.grad_x, test::kLargeScoresF32, "grad_x");
}

TEST(CpuHeadLoss, NotANumberReachesTheLoss) {
  OraclePair pair(2);
  const Case c{9, 8, 50};
  Tensors t(pair, c);
  std::vector<double> x = test::DeviceFixture::normals({9, 8}, "x");
  x[5 * 8] = std::nan("");
  t.x = pair.floats({9, 8}, x);
  run(pair, c, t, Mode::kTraining);
  EXPECT_TRUE(std::isnan(pair.fast.read<double>(t.loss_sums.fast)[0]));
}

}  // namespace
}  // namespace ulmus::ops
