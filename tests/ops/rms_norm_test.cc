#include "ulmus/ops/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

TEST(RmsNorm, KnownValues) {
  DeviceFixture f;
  const TensorView y = f.stale(DType::kF64, {2, 4});
  const TensorView inv_rms = f.stale(DType::kF64, {2});
  // Mean squares: (1 + 9 + 25 + 1) / 4 = 9 and 0.
  rms_norm_forward({.y = y,
                    .inv_rms = inv_rms,
                    .x = f.f64({2, 4}, {1, -3, 5, 1, 0, 0, 0, 0}),
                    .weight = f.f64({4}, {1, 2, 3, 0.5}),
                    .eps = 7.0},
                   f.ctx);
  test::expect_close(f.values(inv_rms), {0.25, 1.0 / std::sqrt(7.0)}, kClosedFormF64, "inv_rms");
  test::expect_close(f.values(y), {0.25, -1.5, 3.75, 0.125, 0, 0, 0, 0}, kClosedFormF64, "y");
}

TEST(RmsNorm, ForwardInPlace) {
  DeviceFixture f;
  const TensorView x = f.normal(DType::kF32, {5, 33}, "x");
  const TensorView y = f.stale(DType::kF32, {5, 33});
  const TensorView weight = f.normal(DType::kF32, {33}, "weight");
  const TensorView inv_rms = f.stale(DType::kF32, {5});
  rms_norm_forward({.y = y, .inv_rms = inv_rms, .x = x, .weight = weight}, f.ctx);
  rms_norm_forward({.y = x, .inv_rms = inv_rms, .x = x, .weight = weight}, f.ctx);
  EXPECT_EQ(f.values(x), f.values(y));
}

TEST(RmsNorm, BackwardInPlaceAndAdding) {
  DeviceFixture f;
  const Shape shape = {5, 9};
  const TensorView x = f.normal(DType::kF64, shape, "x");
  const TensorView weight = f.normal(DType::kF64, {9}, "weight");
  const TensorView inv_rms = f.stale(DType::kF64, {5});
  rms_norm_forward({.y = f.zeros(DType::kF64, shape), .inv_rms = inv_rms, .x = x, .weight = weight},
                   f.ctx);
  const TensorView grad_y = f.normal(DType::kF64, shape, "grad_y");
  const TensorView apart = f.stale(DType::kF64, shape);
  const TensorView grad_weight = f.zeros(DType::kF64, {9});
  RmsNormBackwardArgs args = {.grad_x = apart,
                              .grad_weight = grad_weight,
                              .grad_y = grad_y,
                              .x = x,
                              .weight = weight,
                              .inv_rms = inv_rms};
  rms_norm_backward(args, f.ctx);
  const std::vector<double> once = f.values(grad_weight);
  const std::vector<double> overwritten = f.values(apart);

  args.accumulate = Accumulate::kAdd;
  rms_norm_backward(args, f.ctx);
  std::vector<double> doubled = overwritten;
  for (double& value : doubled)
    value *= 2.0;
  EXPECT_EQ(f.values(apart), doubled);
  doubled = once;
  for (double& value : doubled)
    value *= 2.0;
  test::expect_close(f.values(grad_weight), doubled, kClosedFormF64, "grad_weight");

  args.accumulate = Accumulate::kOverwrite;
  args.grad_x = grad_y;
  rms_norm_backward(args, f.ctx);
  EXPECT_EQ(f.values(grad_y), overwritten);
}

TEST(RmsNorm, NoRows) {
  DeviceFixture f;
  const TensorView none = f.zeros(DType::kF64, {0, 3});
  const TensorView inv_rms = f.zeros(DType::kF64, {0});
  const TensorView weight = f.f64({3}, {1, 1, 1});
  const TensorView grad_weight = f.f64({3}, {4, 5, 6});
  rms_norm_forward({.y = none, .inv_rms = inv_rms, .x = none, .weight = weight}, f.ctx);
  rms_norm_backward({.grad_x = none,
                     .grad_weight = grad_weight,
                     .grad_y = none,
                     .x = none,
                     .weight = weight,
                     .inv_rms = inv_rms},
                    f.ctx);
  EXPECT_EQ(f.values(grad_weight), (std::vector<double>{4, 5, 6}));
}

}  // namespace
}  // namespace ulmus::ops
