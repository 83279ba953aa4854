#include "ulmus/ops/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

/// kUpdate, kClip and the corrections of update number `count`.
std::vector<double> gate_of(double update, double clip, double correction1, double correction2) {
  std::vector<double> gate(kNumGateFields, 0.0);
  gate[static_cast<std::size_t>(GateField::kUpdate)] = update;
  gate[static_cast<std::size_t>(GateField::kClip)] = clip;
  gate[static_cast<std::size_t>(GateField::kCorrection1)] = correction1;
  gate[static_cast<std::size_t>(GateField::kCorrection2)] = correction2;
  return gate;
}

class AdamwTest : public testing::Test {
 protected:
  void step(const std::vector<double>& grad, const std::vector<double>& gate) {
    adamw({.param = param_,
           .m = m_,
           .v = v_,
           .grad = f_.f64({2}, grad),
           .gate = f_.f64({kNumGateFields}, gate),
           .lr = 0.1,
           .beta1 = 0.9,
           .beta2 = 0.99,
           .eps = 0.5,
           .weight_decay = 0.2},
          f_.ctx);
  }
  DeviceFixture f_;
  TensorView param_ = f_.f64({2}, {1.0, -2.0});
  TensorView m_ = f_.zeros(DType::kF64, {2});
  TensorView v_ = f_.zeros(DType::kF64, {2});
};

TEST_F(AdamwTest, TwoStepsByHand) {
  // First step, gradient (4, 0) clipped by 1/2: g = 2, m = 0.2, v = 0.04; both corrected give 2
  // and 4, so the step is 0.1 * 2 / (2 + 0.5) = 0.08 after decay by 0.98.
  step({4.0, 0.0}, gate_of(1.0, 0.5, 0.1, 0.01));
  test::expect_close(f_.values(m_), {0.2, 0.0}, kClosedFormF64, "m");
  test::expect_close(f_.values(v_), {0.04, 0.0}, kClosedFormF64, "v");
  test::expect_close(f_.values(param_), {0.98 - 0.08, -1.96}, kClosedFormF64, "param");
  // Second, g = (-1, 3): m = 0.18 - 0.1 = 0.08, v = 0.0396 + 0.01 = 0.0496.
  step({-1.0, 3.0}, gate_of(1.0, 1.0, 0.19, 0.0199));
  test::expect_close(f_.values(m_), {0.08, 0.3}, kClosedFormF64, "m");
  test::expect_close(f_.values(v_), {0.0496, 0.09}, kClosedFormF64, "v");
  const double first = 0.9 * 0.98 - 0.1 * (0.08 / 0.19) / (std::sqrt(0.0496 / 0.0199) + 0.5);
  const double second = -1.96 * 0.98 - 0.1 * (0.3 / 0.19) / (std::sqrt(0.09 / 0.0199) + 0.5);
  test::expect_close(f_.values(param_), {first, second}, kClosedFormF64, "param");
}

TEST_F(AdamwTest, AClosedGateChangesNothing) {
  step({1.0, 1.0}, gate_of(1.0, 1.0, 0.1, 0.01));
  const std::vector<double> param = f_.values(param_);
  const std::vector<double> m = f_.values(m_);
  step({std::nan(""), 5.0}, gate_of(0.0, 1.0, 0.0, 0.0));
  EXPECT_EQ(f_.values(param_), param);
  EXPECT_EQ(f_.values(m_), m);
}

}  // namespace
}  // namespace ulmus::ops
