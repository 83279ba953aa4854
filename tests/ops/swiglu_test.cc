#include "ulmus/ops/swiglu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

TEST(Swiglu, KnownValues) {
  DeviceFixture f;
  const TensorView h = f.stale(DType::kF64, {1, 4});
  // silu(0) = 0, silu(ln 3) = 0.75 ln 3, silu(-ln 3) = -0.25 ln 3, silu(1000) = 1000.
  const double ln3 = std::log(3.0);
  swiglu_forward({.h = h, .x = f.f64({1, 8}, {0, ln3, -ln3, 1000, 5, 2, 4, -1}), .row_count = {}},
                 f.ctx);
  test::expect_close(f.values(h), {0, 1.5 * ln3, -ln3, -1000}, kClosedFormF64, "h");
  swiglu_forward({.h = h, .x = f.f64({1, 8}, {-1000, 0, 0, 0, 5, 0, 0, 0}), .row_count = {}},
                 f.ctx);
  EXPECT_EQ(f.values(h)[0], 0.0);  // no overflow on the far side
}

TEST(Swiglu, RowsFromTheCountOnAreLeftAlone) {
  DeviceFixture f;
  const TensorView x = f.normal(DType::kF64, {3, 4}, "x");
  const TensorView h = f.stale(DType::kF64, {3, 2});
  const TensorView count = f.i32({1}, {2});
  swiglu_forward({.h = h, .x = x, .row_count = count, .booked_rows = 2}, f.ctx);
  const TensorView grad_x = f.stale(DType::kF64, {3, 4});
  const TensorView weighted_h = f.stale(DType::kF64, {3, 2});
  const TensorView grad_row_weight = f.stale(DType::kF64, {3});
  swiglu_backward({.grad_x = grad_x,
                   .weighted_h = weighted_h,
                   .grad_row_weight = grad_row_weight,
                   .grad_h = f.normal(DType::kF64, {3, 2}, "grad_h"),
                   .x = x,
                   .row_weight = f.f64({3}, {2, 3, 4}),
                   .row_count = count,
                   .booked_rows = 2},
                  f.ctx);
  for (const TensorView& view : {h, grad_x, weighted_h, grad_row_weight}) {
    const std::vector<double> last = f.values(view.rows(2, 3));
    EXPECT_EQ(last, std::vector<double>(last.size(), DeviceFixture::kStale));
    EXPECT_NE(f.values(view.rows(1, 2))[0], DeviceFixture::kStale);
  }
}

TEST(Swiglu, BackwardWithWeights) {
  DeviceFixture f;
  const TensorView x = f.normal(DType::kF64, {4, 6}, "x");
  const TensorView grad_h = f.normal(DType::kF64, {4, 3}, "grad_h");
  const std::vector<double> weights = {0.5, 0.0, -2.0, 1.0};
  const TensorView h = f.stale(DType::kF64, {4, 3});
  swiglu_forward({.h = h, .x = x, .row_count = {}}, f.ctx);
  const TensorView grad_x = f.stale(DType::kF64, {4, 6});
  const TensorView weighted_h = f.stale(DType::kF64, {4, 3});
  const TensorView grad_row_weight = f.stale(DType::kF64, {4});
  swiglu_backward({.grad_x = grad_x,
                   .weighted_h = weighted_h,
                   .grad_row_weight = grad_row_weight,
                   .grad_h = grad_h,
                   .x = x,
                   .row_weight = f.f64({4}, weights),
                   .row_count = {}},
                  f.ctx);
  const std::vector<double> h_values = f.values(h);
  const std::vector<double> grad_values = f.values(grad_h);
  for (std::size_t r = 0; r < 4; ++r) {
    double product = 0.0;
    for (std::size_t i = 3 * r; i < 3 * r + 3; ++i) {
      product += h_values[i] * grad_values[i];
      test::expect_close(f.values(weighted_h)[i], weights[r] * h_values[i], kClosedFormF64,
                         "weighted_h");
    }
    test::expect_close(f.values(grad_row_weight)[r], product, kClosedFormF64, "grad_row_weight");
  }
  for (const double value : f.values(grad_x.rows(1, 2)))
    EXPECT_EQ(value, 0.0);  // weight 0

  // In place, without a weight: the same as weight 1.
  const std::vector<double> last = f.values(grad_x.rows(3, 4));
  swiglu_backward({.grad_x = x,
                   .weighted_h = grad_h,
                   .grad_row_weight = {},
                   .grad_h = grad_h,
                   .x = x,
                   .row_weight = {},
                   .row_count = {}},
                  f.ctx);
  EXPECT_EQ(f.values(x.rows(3, 4)), last);
  EXPECT_EQ(f.values(grad_h), h_values);
}

}  // namespace
}  // namespace ulmus::ops
