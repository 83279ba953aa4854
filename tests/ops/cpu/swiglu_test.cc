#include "ulmus/ops/swiglu.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;
using test::Scale;

struct Case {
  std::int64_t num_rows;
  std::int64_t width;
  std::int32_t rows_in_use;
};
constexpr Case kCases[] = {{0, 8, 0},      {1, 1, 1},       {3, 7, 2},
                           {4, 8, 0},      {5, 9, 5},       {67, 31, 60},
                           {257, 64, 256}, {131, 176, 131}, {1031, 33, 1000}};

enum class Given { kAll, kNothing };

std::vector<Output> run(const Case& c, Given given, DeviceFixture& f) {
  const bool all = given == Given::kAll;
  const Shape hidden = {c.num_rows, c.width};
  const Shape pairs = {c.num_rows, 2 * c.width};
  const TensorView x = f.normal(DType::kF32, pairs, "x", 4.0);
  const TensorView count = all ? f.i32({1}, {c.rows_in_use}) : TensorView();
  const std::int64_t booked = all ? c.rows_in_use : c.num_rows;
  const TensorView h = f.stale(DType::kF32, hidden);
  swiglu_forward({.h = h, .x = x, .row_count = count, .booked_rows = booked}, f.ctx);

  const TensorView grad_h = f.normal(DType::kF32, hidden, "grad_h");
  const TensorView grad_x = f.stale(DType::kF32, pairs);
  const TensorView weighted_h = f.stale(DType::kF32, hidden);
  const TensorView grad_row_weight = all ? f.stale(DType::kF32, {c.num_rows}) : TensorView();
  SwigluBackwardArgs args = {
      .grad_x = grad_x,
      .weighted_h = weighted_h,
      .grad_row_weight = grad_row_weight,
      .grad_h = grad_h,
      .x = x,
      .row_weight = all ? f.normal(DType::kF32, {c.num_rows}, "weight") : TensorView(),
      .row_count = count,
      .booked_rows = booked};
  swiglu_backward(args, f.ctx);
  args.grad_x = x;
  args.weighted_h = grad_h;
  swiglu_backward(args, f.ctx);
  std::vector<Output> outputs = {
      {"h", f.values(h), test::kElementF32},
      {"grad_x", f.values(grad_x), test::kElementF32, Scale::kLargest},
      {"weighted_h", f.values(weighted_h), test::kElementF32},
      {"grad_x in place", f.values(x), test::kElementF32, Scale::kLargest},
      {"weighted_h in place", f.values(grad_h), test::kElementF32}};
  if (all) {
    outputs.push_back(
        {"grad_row_weight", f.values(grad_row_weight), test::kReduceF32, Scale::kLargest});
  }
  return outputs;
}

TEST(CpuSwiglu, LikeTheOracle) {
  for (const Case& c : kCases) {
    for (const Given given : {Given::kAll, Given::kNothing}) {
      const std::string name = test::shape_name({c.num_rows, c.width, c.rows_in_use});
      const auto body = [&](DeviceFixture& f) { return run(c, given, f); };
      test::expect_like_oracle(name, test::Bits::kOfAnyThreadCount, body);
    }
  }
}

TEST(CpuSwiglu, FarFromZero) {
  test::expect_like_oracle("large gates", test::Bits::kOfAnyThreadCount, [](DeviceFixture& f) {
    const std::vector<double> x = {-1000, 1000, -90, 90, -104, 104, -1e30, 1e30, -50,
                                   1,     2,    3,   4,  5,    6,   7,     8,    9};
    const TensorView h = f.stale(DType::kF32, {1, 9});
    const TensorView grad_x = f.stale(DType::kF32, {1, 18});
    const TensorView view = f.floats(DType::kF32, {1, 18}, x);
    swiglu_forward({.h = h, .x = view, .row_count = {}, .booked_rows = 1}, f.ctx);
    swiglu_backward({.grad_x = grad_x,
                     .weighted_h = f.stale(DType::kF32, {1, 9}),
                     .grad_row_weight = {},
                     .grad_h = f.normal(DType::kF32, {1, 9}, "grad_h"),
                     .x = view,
                     .row_weight = {},
                     .row_count = {},
                     .booked_rows = 1},
                    f.ctx);
    return std::vector<Output>{{"h", f.values(h), test::kElementF32},
                               {"grad_x", f.values(grad_x), test::kElementF32}};
  });
}

}  // namespace
}  // namespace ulmus::ops
