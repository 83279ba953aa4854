#include "ulmus/ops/dense_kernels.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/grad_check.h"

// Backward calls against central differences, f64, on the oracle.
namespace ulmus::ops {
namespace {

using test::check_gradients;
using test::DeviceFixture;
using test::inner;

constexpr DType kF64 = DType::kF64;

TEST(EmbeddingGrad, Weight) {
  DeviceFixture f;
  const TensorView weight = f.normal(kF64, {5, 3}, "weight");
  const TensorView ids = f.i32({7}, {4, 0, 4, 4, 2, 0, 1});
  const TensorView y = f.zeros(kF64, {7, 3});
  const TensorView u = f.normal(kF64, {7, 3}, "u");
  const TensorView grad = f.zeros(kF64, {5, 3});
  embedding_backward({.grad_weight = grad, .grad_y = u, .ids = ids, .scale = 1.7}, f.ctx);
  check_gradients(f, {{"weight", weight, f.values(grad)}}, [&] {
    embedding_forward({.y = y, .weight = weight, .ids = ids, .scale = 1.7}, f.ctx);
    return inner(f.values(y), f.values(u));
  });
}

TEST(RmsNormGrad, InputAndWeight) {
  DeviceFixture f;
  const Shape shape = {4, 7};
  const TensorView x = f.normal(kF64, shape, "x");
  const TensorView weight = f.normal(kF64, {7}, "weight");
  const TensorView y = f.zeros(kF64, shape);
  const TensorView inv_rms = f.zeros(kF64, {4});
  const TensorView u = f.normal(kF64, shape, "u");
  const auto objective = [&] {
    rms_norm_forward({.y = y, .inv_rms = inv_rms, .x = x, .weight = weight, .eps = 0.1}, f.ctx);
    return inner(f.values(y), f.values(u));
  };
  objective();
  const TensorView grad_x = f.stale(kF64, shape);
  const TensorView grad_weight = f.zeros(kF64, {7});
  rms_norm_backward({.grad_x = grad_x,
                     .grad_weight = grad_weight,
                     .grad_y = u,
                     .x = x,
                     .weight = weight,
                     .inv_rms = inv_rms},
                    f.ctx);
  check_gradients(f, {{"x", x, f.values(grad_x)}, {"weight", weight, f.values(grad_weight)}},
                  objective);
}

TEST(RopeGrad, Input) {
  DeviceFixture f;
  const Shape shape = {4, 2, 6};
  const TensorView x = f.normal(kF64, shape, "x");
  const TensorView y = f.zeros(kF64, shape);
  const TensorView u = f.normal(kF64, shape, "u");
  const RopeConfig config = {.theta = 50.0, .factor = 4.0, .original_length = 64.0};
  const TensorView table = f.f64({9, 6}, rope_table(config, 9, 6));
  const TensorView positions = f.i32({4}, {0, 3, 8, 1});
  const TensorView grad = f.stale(kF64, shape);
  rope({.y = grad,
        .x = u,
        .table = table,
        .positions = positions,
        .direction = RopeDirection::kBackward},
       f.ctx);
  check_gradients(f, {{"x", x, f.values(grad)}}, [&] {
    rope({.y = y, .x = x, .table = table, .positions = positions}, f.ctx);
    return inner(f.values(y), f.values(u));
  });
}

// A linear layer: forward kNT, input gradient kNN, weight gradient kTN.
TEST(MatmulGrad, LinearLayer) {
  DeviceFixture f;
  const TensorView x = f.normal(kF64, {5, 3}, "x");
  const TensorView weight = f.normal(kF64, {4, 3}, "weight");
  const TensorView y = f.zeros(kF64, {5, 4});
  const TensorView u = f.normal(kF64, {5, 4}, "u");
  const TensorView grad_x = f.stale(kF64, {5, 3});
  const TensorView grad_weight = f.zeros(kF64, {4, 3});
  matmul({.out = grad_x, .a = u, .b = weight, .form = MatmulForm::kNN}, f.ctx);
  matmul(
      {.out = grad_weight, .a = u, .b = x, .form = MatmulForm::kTN, .accumulate = Accumulate::kAdd},
      f.ctx);
  check_gradients(f, {{"x", x, f.values(grad_x)}, {"weight", weight, f.values(grad_weight)}}, [&] {
    matmul({.out = y, .a = x, .b = weight}, f.ctx);
    return inner(f.values(y), f.values(u));
  });
}

class SwigluGradTest : public testing::Test {
 protected:
  /// w[r] silu(gate) up, with or without w
  void check(bool weighted) {
    const Shape x_shape = {5, 6};
    const Shape h_shape = {5, 3};
    const TensorView x = f_.normal(kF64, x_shape, "x", 2.0);
    const TensorView w = f_.normal(kF64, {5}, "w");
    const TensorView h = f_.zeros(kF64, h_shape);
    const std::vector<double> u = DeviceFixture::normals(h_shape, "u");
    const TensorView grad_x = f_.stale(kF64, x_shape);
    const TensorView grad_w = f_.stale(kF64, {5});
    swiglu_backward({.grad_x = grad_x,
                     .weighted_h = f_.stale(kF64, h_shape),
                     .grad_row_weight = grad_w,
                     .grad_h = f_.f64(h_shape, u),
                     .x = x,
                     .row_weight = weighted ? w : TensorView(),
                     .row_count = {}},
                    f_.ctx);
    std::vector<test::CheckedInput> inputs = {{"x", x, f_.values(grad_x)}};
    if (weighted) inputs.push_back({"row_weight", w, f_.values(grad_w)});
    check_gradients(f_, inputs, [&] {
      swiglu_forward({.h = h, .x = x, .row_count = {}}, f_.ctx);
      std::vector<double> scaled = f_.values(h);
      const std::vector<double> weights = f_.values(w);
      for (std::size_t i = 0; i < scaled.size(); ++i)
        scaled[i] *= weighted ? weights[i / 3] : 1.0;
      return inner(scaled, u);
    });
  }
  DeviceFixture f_;
};

TEST_F(SwigluGradTest, WithoutRowWeights) { check(false); }
TEST_F(SwigluGradTest, WithRowWeights) { check(true); }

TEST(HeadLossGrad, LossAndZ) {
  DeviceFixture f;
  const TensorView x = f.normal(kF64, {6, 4}, "x");
  const TensorView weight = f.normal(kF64, {9, 4}, "weight");
  const TensorView grad_x = f.stale(kF64, {6, 4});
  const TensorView grad_weight = f.zeros(kF64, {9, 4});
  HeadLossArgs args = {.loss_sums = f.zeros(kF64, {2}),
                       .grad_x = grad_x,
                       .grad_weight = grad_weight,
                       .x = x,
                       .weight = weight,
                       .targets = f.i32({6}, {3, -1, 0, 8, 3, -1}),
                       .scale = 0.3,
                       .z_coefficient = 0.2,
                       .chunk_rows = 4};
  head_loss(args, f.ctx);
  args.grad_x = {};
  args.grad_weight = {};
  check_gradients(f, {{"x", x, f.values(grad_x)}, {"weight", weight, f.values(grad_weight)}}, [&] {
    f.write(args.loss_sums, {0.0, 0.0});
    head_loss(args, f.ctx);
    const std::vector<double> sums = f.values(args.loss_sums);
    return sums[0] + args.z_coefficient * sums[1];
  });
}

}  // namespace
}  // namespace ulmus::ops
