#include "ulmus/ops/rms_norm.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;
using test::Scale;

struct Case {
  std::int64_t num_rows;
  std::int64_t width;
};
constexpr Case kCases[] = {{0, 8},   {1, 1},   {1, 7},     {2, 9},     {3, 31},    {5, 33},
                           {13, 64}, {97, 65}, {257, 128}, {1031, 32}, {61, 1009}, {7, 4099}};

std::vector<Output> forward(const Case& c, DeviceFixture& f) {
  const Shape shape = {c.num_rows, c.width};
  const TensorView x = f.normal(DType::kF32, shape, "x", 3.0);
  const TensorView weight = f.normal(DType::kF32, {c.width}, "weight");
  const TensorView y = f.stale(DType::kF32, shape);
  const TensorView inv_rms = f.stale(DType::kF32, {c.num_rows});
  rms_norm_forward({.y = y, .inv_rms = inv_rms, .x = x, .weight = weight, .eps = 1e-5}, f.ctx);
  rms_norm_forward({.y = x, .inv_rms = inv_rms, .x = x, .weight = weight, .eps = 1e-5}, f.ctx);
  return {{"y", f.values(y), test::kElementF32},
          {"in place", f.values(x), test::kElementF32},
          {"inv_rms", f.values(inv_rms), test::kElementF32}};
}

std::vector<Output> backward(const Case& c, Accumulate accumulate, DeviceFixture& f) {
  const Shape shape = {c.num_rows, c.width};
  const TensorView x = f.normal(DType::kF32, shape, "x", 3.0);
  const TensorView weight = f.normal(DType::kF32, {c.width}, "weight");
  const TensorView inv_rms = f.zeros(DType::kF32, {c.num_rows});
  const TensorView y = f.zeros(DType::kF32, shape);
  rms_norm_forward({.y = y, .inv_rms = inv_rms, .x = x, .weight = weight}, f.ctx);
  const TensorView grad_x = f.normal(DType::kF32, shape, "grad_x");
  const TensorView grad_weight = f.normal(DType::kF32, {c.width}, "grad_weight");
  RmsNormBackwardArgs args = {.grad_x = grad_x,
                              .grad_weight = grad_weight,
                              .grad_y = f.normal(DType::kF32, shape, "grad_y"),
                              .x = x,
                              .weight = weight,
                              .inv_rms = inv_rms,
                              .accumulate = accumulate};
  rms_norm_backward(args, f.ctx);
  std::vector<Output> outputs = {
      {"grad_x", f.values(grad_x), test::kReduceF32, Scale::kLargest},
      {"grad_weight", f.values(grad_weight), test::kReduceF32, Scale::kLargest}};
  if (accumulate == Accumulate::kOverwrite) {
    const TensorView in_place = f.normal(DType::kF32, shape, "grad_y");
    args.grad_x = in_place;
    args.grad_y = in_place;
    rms_norm_backward(args, f.ctx);
    outputs.push_back({"in place", f.values(in_place), test::kReduceF32, Scale::kLargest});
  }
  return outputs;
}

TEST(CpuRmsNorm, Forward) {
  for (const Case& c : kCases) {
    const std::string name = test::shape_name({c.num_rows, c.width});
    test::expect_like_oracle(name, test::Bits::kOfAnyThreadCount,
                             [&](DeviceFixture& f) { return forward(c, f); });
  }
}

TEST(CpuRmsNorm, Backward) {
  for (const Case& c : kCases) {
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      test::expect_like_oracle(test::shape_name({c.num_rows, c.width}), test::Bits::kOfThreadCount,
                               [&](DeviceFixture& f) { return backward(c, accumulate, f); });
    }
  }
}

}  // namespace
}  // namespace ulmus::ops
