#include "ulmus/ops/front_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Wrong operands give the operation, the operand, what came and what is needed.
class FrontDoorTest : public testing::Test {
 protected:
  TensorView f32(const Shape& shape) { return f_.zeros(DType::kF32, shape); }
  TensorView i32(const Shape& shape) { return f_.zeros(DType::kI32, shape); }
  DeviceFixture f_;
};

TEST_F(FrontDoorTest, ShapesAreShownOnBothSides) {
  EXPECT_EQ(error_of([&] {
              rms_norm_forward(
                  {.y = f32({4, 8}), .inv_rms = f32({4}), .x = f32({4, 6}), .weight = f32({6})},
                  f_.ctx);
            }),
            "rms_norm_forward: y is f32 [4, 8], expected f32 [4, 6]");
  EXPECT_EQ(
      error_of([&] { matmul({.out = f32({4, 5}), .a = f32({4, 3}), .b = f32({3, 5})}, f_.ctx); }),
      "matmul: b is f32 [3, 5], expected f32 [5, 3]");
  EXPECT_EQ(error_of([&] {
              grouped_matmul({.out = f32({6, 5}),
                              .rows = f32({6, 3}),
                              .weight = f32({2, 5, 3}),
                              .left = {},
                              .expert_begin = i32({5})},
                             f_.ctx);
            }),
            "grouped_matmul: weight is f32 [2, 5, 3], expected f32 [4, 5, 3]");
  EXPECT_EQ(error_of([&] {
              embedding_forward({.y = f32({4, 2}), .weight = f32({9, 2}), .ids = i32({3})}, f_.ctx);
            }),
            "embedding_forward: ids is i32 [3], expected i32 [4]");
}

TEST_F(FrontDoorTest, ElementTypesAreShownOnBothSides) {
  EXPECT_EQ(error_of([&] {
              add({.y = f32({2}), .a = f_.zeros(DType::kF64, {2}), .b = f32({2})}, f_.ctx);
            }),
            "add: a is f64 [2], expected f32 [2]");
  EXPECT_THAT(error_of([&] { add({.y = i32({2}), .a = i32({2}), .b = i32({2})}, f_.ctx); }),
              HasSubstr("y is i32 [2], expected a float type"));
  EXPECT_EQ(error_of([&] {
              step_gate({.gate = f32({kNumGateFields}),
                         .windows = {},
                         .loss = {},
                         .norm_sq = {},
                         .first_bad = {}},
                        f_.ctx);
            }),
            "step_gate: gate is f32 [10], expected f64 [10]");
}

TEST_F(FrontDoorTest, AMissingOperandIsAWrongShape) {
  EXPECT_EQ(error_of([&] {
              rope({.y = f32({2, 1, 4}), .x = f32({2, 1, 4}), .table = {}, .positions = i32({2})},
                   f_.ctx);
            }),
            "rope: table is f32 [0], expected 2 axes");
  EXPECT_EQ(error_of([&] {
              router_select({.ids = i32({2, 1}), .logits = f32({2, 4}), .bias = {}, .valid = {}},
                            f_.ctx);
            }),
            "router_select: valid is f32 [0], expected u8 [2]");
}

TEST_F(FrontDoorTest, GapsAndAliases) {
  const TensorView wide = f32({4, 6});
  EXPECT_THAT(error_of([&] { fill({.x = wide.narrow(1, 0, 3)}, f_.ctx); }),
              HasSubstr("fill: x [4, 3] has gaps between rows (row stride 6)"));
  EXPECT_THAT(error_of([&] {
                add({.y = wide.rows(0, 2), .a = wide.rows(1, 3), .b = wide.rows(0, 2)}, f_.ctx);
              }),
              HasSubstr("add: y [2, 6] overlaps a [2, 6] without being the same memory"));
  const TensorView square = f32({3, 3});
  EXPECT_THAT(error_of([&] { matmul({.out = square, .a = square, .b = f32({3, 3})}, f_.ctx); }),
              HasSubstr("matmul: out [3, 3] shares memory with a [3, 3]"));
}

TEST_F(FrontDoorTest, RangesOfScalars) {
  EXPECT_THAT(error_of([&] {
                router_select({.ids = i32({2, 5}),
                               .logits = f32({2, 4}),
                               .bias = {},
                               .valid = f_.zeros(DType::kU8, {2})},
                              f_.ctx);
              }),
              AllOf(StartsWith("router_select"), HasSubstr("[2, 5]"), HasSubstr("[2, 4]")));
  EXPECT_THAT(error_of([&] {
                swiglu_forward(
                    {.h = f32({3, 2}), .x = f32({3, 4}), .row_count = i32({1}), .booked_rows = 4},
                    f_.ctx);
              }),
              HasSubstr("booked_rows is 4, expected 0 to 3"));
  EXPECT_THAT(error_of([&] {
                balance_coefficients({.coefficients = f32({2, 4}),
                                      .loss_sum = f_.zeros(DType::kF64, {1}),
                                      .counts = f_.zeros(DType::kI64, {2, 4}),
                                      .score_sums = f_.zeros(DType::kF64, {2, 4}),
                                      .previous = {},
                                      .step_tokens = 0.0},
                                     f_.ctx);
              }),
              HasSubstr("step_tokens is 0, expected more than 0"));
}

TEST_F(FrontDoorTest, Attention) {
  AttentionForwardArgs args = {.out = f32({6, 4, 8}),
                               .lse = f32({6, 4}),
                               .q = f32({6, 4, 8}),
                               .k = f32({6, 3, 8}),
                               .v = f32({6, 3, 8}),
                               .first_key = i32({6})};
  EXPECT_THAT(error_of([&] { attention_forward(args, f_.ctx); }),
              AllOf(HasSubstr("q [6, 4, 8] has 4 heads"), HasSubstr("k [6, 3, 8]")));
  args.k = args.v = f32({6, 2, 8});
  args.num_sequences = 4;
  EXPECT_THAT(error_of([&] { attention_forward(args, f_.ctx); }),
              HasSubstr("6 query rows and 6 key rows, expected multiples of 4 sequences"));
  args.num_sequences = 1;
  args.k = args.v = f32({5, 2, 8});
  EXPECT_THAT(error_of([&] { attention_forward(args, f_.ctx); }),
              HasSubstr("6 query rows, expected at most the 5 key rows"));
}

TEST_F(FrontDoorTest, RouterGroups) {
  const RouterBackwardArgs args = {.grad_logits = f32({6, 3}),
                                   .grad_weights = f32({6, 2}),
                                   .balance = f32({4, 3}),
                                   .logits = f32({6, 3}),
                                   .lse = f32({6}),
                                   .ids = i32({6, 2}),
                                   .rule = {}};
  EXPECT_THAT(error_of([&] { router_backward(args, f_.ctx); }),
              AllOf(HasSubstr("balance [4, 3] has 4 groups"), HasSubstr("logits [6, 3]")));
}

// On a meta device a call is checked and booked, and its scratch counts, but nothing runs.
TEST(MetaFrontDoor, ChecksBooksAndPricesScratch) {
  const auto device = make_meta_device(4);
  Workspace workspace(*device, Arena::kUnbounded);
  Arena values(*device, MemoryClass::kParameters, Arena::kUnbounded);
  Arena grads(*device, MemoryClass::kGradients, Arena::kUnbounded);
  Meter meter;
  const ExecContext ctx{*device, workspace, meter};
  const std::int64_t width = 1 << 20;
  const RmsNormBackwardArgs args = {
      .grad_x = grads.allocate("grad_x", DType::kF32, {1 << 20, width}),
      .grad_weight = grads.allocate("grad_weight", DType::kF32, {width}),
      .grad_y = values.allocate("grad_y", DType::kF32, {1 << 20, width}),
      .x = values.allocate("x", DType::kF32, {1 << 20, width}),
      .weight = values.allocate("weight", DType::kF32, {width}),
      .inv_rms = values.allocate("inv_rms", DType::kF32, {1 << 20})};
  rms_norm_backward(args, ctx);
  ASSERT_EQ(meter.entries().size(), 1U);
  EXPECT_EQ(meter.entries()[0].operation, "rms_norm_backward");
  EXPECT_EQ(meter.entries()[0].calls, 1);
  EXPECT_EQ(workspace.peak_bytes(), rms_norm_backward_scratch_bytes(width, 4));
  EXPECT_EQ(workspace.peak_bytes(), 4 * width * 8);
  EXPECT_EQ(workspace.used_bytes(), 0);
  RmsNormBackwardArgs wrong = args;
  wrong.grad_weight = args.grad_weight.rows(0, 5);
  EXPECT_THAT(error_of([&] { rms_norm_backward(wrong, ctx); }),
              HasSubstr("grad_weight is f32 [5]"));
}

TEST(KernelTable, NoSlotIsEmpty) {
  const auto expect_filled = [](const auto&... slots) {
    (([&] {
       EXPECT_NE(slots.ref, nullptr) << slots.name;
       EXPECT_NE(slots.cpu, nullptr) << slots.name;
     }()),
     ...);
  };
  const DenseKernels& d = kernels().dense;
  expect_filled(d.fill, d.add, d.initialize_truncated_normal, d.matmul, d.embedding_forward,
                d.embedding_backward, d.rms_norm_forward, d.rms_norm_backward, d.rope,
                d.attention_forward, d.attention_backward, d.swiglu_forward, d.swiglu_backward,
                d.head_loss);
  const MoeKernels& m = kernels().moe;
  expect_filled(m.router_select, m.forced_routes, m.router_weights, m.router_statistics,
                m.router_backward, m.balance_coefficients, m.route_order, m.gather_rows,
                m.combine_rows, m.gather_scalars, m.collect_scalars, m.move_segments,
                m.grouped_matmul);
  const OptimizerKernels& o = kernels().optimizer;
  expect_filled(o.block_norms, o.step_gate, o.adamw, o.router_bias, o.keep_counts);
}

}  // namespace
}  // namespace ulmus::ops
