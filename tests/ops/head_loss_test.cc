#include "ulmus/ops/head_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

TEST(HeadLoss, UniformLogits) {
  DeviceFixture f;
  const TensorView sums = f.f64({2}, {5.0, 7.0});
  head_loss({.loss_sums = sums,
             .grad_x = {},
             .grad_weight = {},
             .x = f.zeros(DType::kF64, {3, 2}),
             .weight = f.normal(DType::kF64, {8, 2}, "w"),
             .targets = f.i32({3}, {0, -1, 7}),
             .scale = 0.5},
            f.ctx);
  const double ln8 = std::log(8.0);
  test::expect_close(f.values(sums), {5.0 + ln8, 7.0 + ln8 * ln8}, kClosedFormF64, "sums");
}

TEST(HeadLoss, KnownLogits) {
  // W = identity, so that x are the logits: log(1), log(2), log(5), lse = log 8.
  DeviceFixture f;
  const TensorView sums = f.zeros(DType::kF64, {2});
  const TensorView grad_x = f.stale(DType::kF64, {2, 3});
  const TensorView grad_weight = f.f64({3, 3}, {1, 0, 0, 0, 0, 0, 0, 0, 0});
  const TensorView x = f.f64({2, 3}, {0, std::log(2.0), std::log(5.0), 9, 9, 9});
  const double z = 0.25;
  head_loss({.loss_sums = sums,
             .grad_x = grad_x,
             .grad_weight = grad_weight,
             .x = x,
             .weight = f.f64({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}),
             .targets = f.i32({2}, {1, -1}),
             .scale = 2.0,
             .z_coefficient = z},
            f.ctx);
  const double lse = std::log(8.0);
  test::expect_close(f.values(sums), {2.0 * std::log(4.0), 2.0 * lse * lse}, kClosedFormF64,
                     "sums");
  const double factor = 2.0 * (1.0 + 2.0 * z * lse);
  const std::vector<double> dz = {factor / 8.0, factor * 2.0 / 8.0 - 2.0, factor * 5.0 / 8.0};
  test::expect_close(f.values(grad_x), {dz[0], dz[1], dz[2], 0, 0, 0}, kClosedFormF64, "grad_x");
  std::vector<double> expected;
  for (const double row : dz) {
    for (const double column : {0.0, std::log(2.0), std::log(5.0)}) {
      expected.push_back(row * column);
    }
  }
  expected[0] += 1.0;  // what was there
  test::expect_close(f.values(grad_weight), expected, kClosedFormF64, "grad_weight");
}

TEST(HeadLoss, LargeLogitsDoNotOverflow) {
  DeviceFixture f;
  const TensorView sums = f.zeros(DType::kF64, {2});
  head_loss({.loss_sums = sums,
             .grad_x = {},
             .grad_weight = {},
             .x = f.f64({1, 1}, {1.0}),
             .weight = f.f64({2, 1}, {5000.0, 4999.0}),
             .targets = f.i32({1}, {1})},
            f.ctx);
  test::expect_close(f.values(sums)[0], 1.0 + std::log1p(std::exp(-1.0)), kClosedFormF64, "loss");
}

TEST(HeadLoss, NoRowsAndOneSidedGradients) {
  DeviceFixture f;
  const TensorView sums = f.f64({2}, {1, 2});
  const TensorView weight = f.normal(DType::kF64, {4, 3}, "w");
  HeadLossArgs args = {.loss_sums = sums,
                       .grad_x = {},
                       .grad_weight = {},
                       .x = f.zeros(DType::kF64, {0, 3}),
                       .weight = weight,
                       .targets = f.i32({0}, {})};
  head_loss(args, f.ctx);
  EXPECT_EQ(f.values(sums), (std::vector<double>{1, 2}));
  args.grad_weight = f.zeros(DType::kF64, {4, 3});
  EXPECT_THROW(head_loss(args, f.ctx), Error);
}

TEST(HeadLoss, BooksEachProductOnce) {
  DeviceFixture f;
  HeadLossArgs args = {.loss_sums = f.zeros(DType::kF64, {2}),
                       .grad_x = {},
                       .grad_weight = {},
                       .x = f.zeros(DType::kF32, {5, 3}),
                       .weight = f.zeros(DType::kF32, {7, 3}),
                       .targets = f.i32({5}, {0, 0, 0, 0, 0}),
                       .chunk_rows = 2};
  head_loss(args, f.ctx);
  EXPECT_EQ(f.meter.useful_flops(), 2.0 * 5 * 3 * 7);
  args.grad_x = f.zeros(DType::kF32, {5, 3});
  args.grad_weight = f.zeros(DType::kF32, {7, 3});
  f.meter.reset();
  head_loss(args, f.ctx);
  EXPECT_EQ(f.meter.useful_flops(), 6.0 * 5 * 3 * 7);
  EXPECT_GE(head_loss_scratch_bytes(args), 2 * 7 * 4 + 2 * 2 * 8);
  EXPECT_LT(head_loss_scratch_bytes(args), 5 * 7 * 4 + 128);  // a chunk, not all rows
}

}  // namespace
}  // namespace ulmus::ops
