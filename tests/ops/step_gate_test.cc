#include "ulmus/ops/step_gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"
#include "ulmus/ops/norm_total.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// A gate behind the total of three tensors with 2, 1 and 1 blocks.
class StepGateTest : public testing::Test {
 protected:
  /// One step; afterwards field() shows the gate.
  void step(double loss, const std::vector<double>& norm_sums) {
    StepGateArgs args = options_;
    args.gate = gate_;
    args.windows = windows_;
    args.loss = f_.f64({1}, {loss});
    const TensorView totals = f_.stale(DType::kF64, {2});
    norm_total({.norm_sq = totals.rows(0, 1),
                .first_bad = totals.rows(1, 2),
                .norm_sums = f_.f64({4}, norm_sums),
                .tensor_begin = f_.tensor<std::int64_t>({4}, {0, 2, 3, 4})},
               f_.ctx);
    args.norm_sq = totals.rows(0, 1);
    args.first_bad = totals.rows(1, 2);
    step_gate(args, f_.ctx);
    values_ = f_.values(gate_);
  }
  void step(double loss, double norm) { step(loss, {norm * norm, 0, 0, 0}); }
  double field(GateField name) const { return values_[static_cast<std::size_t>(name)]; }
  GateReason reason() const {
    return static_cast<GateReason>(static_cast<int>(field(GateField::kReason)));
  }
  double entries() { return f_.values(windows_).back(); }

  DeviceFixture f_;
  TensorView gate_ = f_.zeros(DType::kF64, {kNumGateFields});
  TensorView windows_ = f_.zeros(DType::kF64, {2 * kSkipWindow + 1});
  StepGateArgs options_{};
  std::vector<double> values_;
};

TEST_F(StepGateTest, NormAndCorrections) {
  step(2.5, {1, 4, 3, 8});
  EXPECT_EQ(field(GateField::kUpdate), 1.0);
  EXPECT_EQ(reason(), GateReason::kNone);
  EXPECT_EQ(field(GateField::kLoss), 2.5);
  EXPECT_EQ(field(GateField::kNorm), 4.0);
  EXPECT_EQ(field(GateField::kClip), 1.0);
  EXPECT_EQ(field(GateField::kBadTensor), -1.0);
  EXPECT_EQ(field(GateField::kCount), 1.0);
  test::expect_close(field(GateField::kCorrection1), 0.1, kClosedFormF64, "correction1");
  test::expect_close(field(GateField::kCorrection2), 0.05, kClosedFormF64, "correction2");
  step(2.5, {1, 4, 3, 8});
  EXPECT_EQ(field(GateField::kCount), 2.0);
  test::expect_close(field(GateField::kCorrection1), 1.0 - 0.81, kClosedFormF64, "correction1");
  test::expect_close(field(GateField::kCorrection2), 1.0 - 0.9025, kClosedFormF64, "correction2");
  EXPECT_EQ(entries(), 2.0);
}

TEST_F(StepGateTest, ClippingIsAFactor) {
  options_.clip = 0.5;
  step(1.0, 2.0);
  EXPECT_EQ(field(GateField::kClip), 0.25);
  EXPECT_EQ(field(GateField::kNorm), 2.0);
  step(1.0, 0.4);
  EXPECT_EQ(field(GateField::kClip), 1.0);
}

TEST_F(StepGateTest, ANormWhoseSquareLeavesF32CountsAsNonFinite) {
  step(1.0, 2e19);
  EXPECT_EQ(reason(), GateReason::kNonfinite);
  EXPECT_EQ(field(GateField::kUpdate), 0.0);
  EXPECT_EQ(field(GateField::kBadTensor), -1.0);
  step(1.0, 9e18);
  EXPECT_EQ(reason(), GateReason::kNone);
  options_.clip = 1.0;  // clipped, it does no harm
  step(1.0, 2e19);
  EXPECT_EQ(reason(), GateReason::kNone);
}

TEST_F(StepGateTest, NonFiniteNormNamesTheFirstTensor) {
  step(1.0, 1.0);
  const std::vector<double> windows = f_.values(windows_);
  step(1.0, {1, 2, kNan, kInf});
  EXPECT_EQ(field(GateField::kUpdate), 0.0);
  EXPECT_EQ(reason(), GateReason::kNonfinite);
  EXPECT_EQ(field(GateField::kBadTensor), 1.0);
  EXPECT_EQ(field(GateField::kCount), 1.0);
  EXPECT_EQ(field(GateField::kNonfiniteInRow), 1.0);
  step(1.0, {1, kInf, 0, 0});
  EXPECT_EQ(field(GateField::kBadTensor), 0.0);
  step(kNan, {1, 1, 1, 1});  // the loss alone
  EXPECT_EQ(reason(), GateReason::kNonfinite);
  EXPECT_EQ(field(GateField::kBadTensor), -1.0);
  EXPECT_EQ(field(GateField::kNonfiniteInRow), 3.0);
  EXPECT_EQ(f_.values(windows_), windows);
  step(1.0, 1.0);
  EXPECT_EQ(field(GateField::kUpdate), 1.0);
  EXPECT_EQ(field(GateField::kNonfiniteInRow), 0.0);
  EXPECT_EQ(field(GateField::kCount), 2.0);
}

TEST_F(StepGateTest, SkipsOutliersOfLossAndNorm) {
  options_.skip_sigma = 3.0;
  for (int i = 0; i < 64; ++i)
    step(i % 2 == 0 ? 1.0 : 3.0, i % 2 == 0 ? 10.0 : 12.0);
  ASSERT_EQ(field(GateField::kCount), 64.0);
  // Mean 2 and 11, standard deviation 1 for both: limits 5 and 14.
  step(5.1, 11.0);
  EXPECT_EQ(field(GateField::kUpdate), 0.0);
  EXPECT_EQ(reason(), GateReason::kSkipLoss);
  EXPECT_EQ(field(GateField::kCount), 64.0);
  EXPECT_EQ(field(GateField::kNonfiniteInRow), 0.0);
  EXPECT_EQ(entries(), 65.0);  // a skipped value enters its window
  EXPECT_EQ(f_.values(windows_)[64], 5.1);
  step(2.0, 14.5);
  EXPECT_EQ(reason(), GateReason::kSkipNorm);
  step(4.9, 11.0);
  EXPECT_EQ(reason(), GateReason::kNone);
}

TEST_F(StepGateTest, NoSkippingBeforeHalfAWindow) {
  options_.skip_sigma = 1.0;
  for (int i = 0; i < 63; ++i)
    step(1.0, 1.0);
  step(1000.0, 1000.0);
  EXPECT_EQ(field(GateField::kUpdate), 1.0);
  step(1000.1, 1.0);  // 64 entries: mean 16.6, standard deviation 124
  EXPECT_EQ(reason(), GateReason::kSkipLoss);
}

TEST_F(StepGateTest, WindowsAreRings) {
  for (int i = 0; i < kSkipWindow + 5; ++i)
    step(i, 2.0 * i);
  const std::vector<double> windows = f_.values(windows_);
  EXPECT_EQ(windows.back(), kSkipWindow + 5);
  EXPECT_EQ(windows[4], kSkipWindow + 4);
  EXPECT_EQ(windows[5], 5.0);
  EXPECT_EQ(windows[kSkipWindow + 4], 2.0 * (kSkipWindow + 4));
  EXPECT_EQ(windows[2 * kSkipWindow - 1], 2.0 * (kSkipWindow - 1));
}

TEST_F(StepGateTest, AConstantHistoryRefusesOnlyWhatIsAboveIt) {
  options_.skip_sigma = 2.0;
  for (int i = 0; i < 80; ++i)
    step(1.5, 2.0);
  step(1.5, 2.0);
  EXPECT_EQ(reason(), GateReason::kNone);
  step(1.0, 1.0);
  EXPECT_EQ(reason(), GateReason::kNone);
}

}  // namespace
}  // namespace ulmus::ops
