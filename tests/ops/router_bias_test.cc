#include "ulmus/ops/router_bias.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using Counts = std::vector<std::int64_t>;

TensorView gate(DeviceFixture& f, double update) {
  std::vector<double> fields(kNumGateFields, 0.0);
  fields[static_cast<std::size_t>(GateField::kUpdate)] = update;
  return f.f64({kNumGateFields}, fields);
}

TEST(RouterBias, SignsOfTheDistanceFromTheMean) {  // G17
  DeviceFixture f;
  const TensorView bias = f.f64({4}, {1, 2, 3, 4});
  const TensorView counts = f.tensor<std::int64_t>({4}, {5, 3, 2, 2});
  router_bias({.bias = bias, .counts = counts, .gate = gate(f, 1.0), .rate = 0.25}, f.ctx);
  EXPECT_EQ(f.values(bias), (std::vector<double>{0.75, 2, 3.25, 4.25}));
}

TEST(RouterBias, AMeanThatIsNoIntegerIsMetByNobody) {
  DeviceFixture f;
  const TensorView bias = f.f64({3}, {0, 0, 0});
  const TensorView counts = f.tensor<std::int64_t>({3}, {3, 3, 4});  // mean 10 / 3
  router_bias({.bias = bias, .counts = counts, .gate = gate(f, 1.0), .rate = 1.0}, f.ctx);
  EXPECT_EQ(f.values(bias), (std::vector<double>{1, 1, -1}));
}

TEST(RouterBias, AClosedGateKeepsBiasAndCounts) {
  DeviceFixture f;
  const TensorView bias = f.floats(DType::kF32, {2}, {0.5, 0.5});
  const TensorView counts = f.tensor<std::int64_t>({2}, {9, 1});
  const TensorView previous = f.tensor<std::int64_t>({2}, {4, 6});
  router_bias({.bias = bias, .counts = counts, .gate = gate(f, 0.0), .rate = 1.0}, f.ctx);
  EXPECT_EQ(f.values(bias), (std::vector<double>{0.5, 0.5}));
  keep_counts({.previous = previous, .counts = counts, .gate = gate(f, 0.0)}, f.ctx);
  EXPECT_EQ(f.read<std::int64_t>(previous), (Counts{4, 6}));
  keep_counts({.previous = previous, .counts = counts, .gate = gate(f, 1.0)}, f.ctx);
  EXPECT_EQ(f.read<std::int64_t>(previous), (Counts{9, 1}));
}

}  // namespace
}  // namespace ulmus::ops
