#include <gtest/gtest.h>

#include "tests/support/allocation_counter.h"
#include "ulmus/device/arena.h"
#include "ulmus/ops/kernels.h"

namespace ulmus::ops {
namespace {

constexpr std::int64_t kTokens = 8;
constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kExperts = 5;
constexpr std::int64_t kTopK = 2;
constexpr std::int64_t kRoutes = kTokens * kTopK;

/// Operands of all operations on a meta device, where a call is checked, priced and booked. A step
/// makes thousands of such calls: while their checks hold none of them may allocate.
class FrontDoorAllocationTest : public testing::Test {
 protected:
  TensorView f32(const Shape& shape) { return arena_.allocate("f32", DType::kF32, shape); }
  TensorView f64(const Shape& shape) { return arena_.allocate("f64", DType::kF64, shape); }
  TensorView i32(const Shape& shape) { return arena_.allocate("i32", DType::kI32, shape); }
  TensorView i64(const Shape& shape) { return arena_.allocate("i64", DType::kI64, shape); }

  std::unique_ptr<Device> device_ = make_meta_device(2);
  Workspace workspace_{*device_, Arena::kUnbounded};
  Arena arena_{*device_, MemoryClass::kActivations, Arena::kUnbounded};
  Meter meter_;
  ExecContext ctx_{*device_, workspace_, meter_};

  TensorView rows_ = f32({kTokens, kWidth});
  TensorView scalar_per_row_ = f32({kTokens});
  TensorView weight_ = f32({kWidth, kWidth});
  TensorView weights_of_width_ = f32({kWidth});
  TensorView tokens_ = i32({kTokens});
  TensorView valid_ = arena_.allocate("u8", DType::kU8, {kTokens});
  TensorView heads_ = f32({kTokens, 2, 4});
  TensorView lse_of_heads_ = f32({kTokens, 2});
  TensorView table_ = f32({9, 4});
  TensorView gate_up_ = f32({kTokens, 2 * kWidth});
  TensorView sums_ = f64({2});
  TensorView logits_ = f32({kTokens, kExperts});
  TensorView ids_ = i32({kTokens, kTopK});
  TensorView routes_ = f32({kTokens, kTopK});
  TensorView counts_ = i64({1, kExperts});
  TensorView score_sums_ = f64({1, kExperts});
  TensorView balance_ = f32({1, kExperts});
  TensorView expert_counts_ = i64({kExperts});
  TensorView expert_scores_ = f64({kExperts});
  TensorView bias_ = f32({kExperts});
  TensorView one_f64_ = f64({1});
  TensorView expert_begin_ = i32({kExperts + 1});
  TensorView row_count_ = i32({1});
  TensorView route_of_row_ = i32({kRoutes});
  TensorView grouped_ = f32({kRoutes, kWidth});
  TensorView of_row_ = f32({kRoutes});
  TensorView segments_ = i64({kExperts, RowSegment::kFields});
  TensorView expert_weight_ = f32({kExperts, kWidth, kWidth});
  TensorView gate_ = f64({kNumGateFields});
  TensorView windows_ = f64({2 * kSkipWindow + 1});
  TensorView tensor_begin_ = i64({2});

  void run_dense() {
    fill({.x = rows_, .value = 1.0}, ctx_);
    add({.y = rows_, .a = rows_, .b = rows_}, ctx_);
    copy({.y = rows_.rows(0, 0), .x = rows_.rows(0, 0)}, ctx_);
    initialize_truncated_normal({.x = rows_, .key = {1, 2}}, ctx_);
    matmul({.out = rows_, .a = rows_, .b = weight_}, ctx_);
    embedding_forward({.y = rows_, .weight = weight_, .ids = tokens_}, ctx_);
    embedding_backward({.grad_weight = weight_, .grad_y = rows_, .ids = tokens_}, ctx_);
    rms_norm_forward(
        {.y = rows_, .inv_rms = scalar_per_row_, .x = rows_, .weight = weights_of_width_}, ctx_);
    rms_norm_backward({.grad_x = rows_,
                       .grad_weight = weights_of_width_,
                       .grad_y = rows_,
                       .x = rows_,
                       .weight = weights_of_width_,
                       .inv_rms = scalar_per_row_},
                      ctx_);
    rope({.y = heads_, .x = heads_, .table = table_, .positions = tokens_}, ctx_);
    attention_forward({.out = heads_,
                       .lse = lse_of_heads_,
                       .q = heads_,
                       .k = heads_,
                       .v = heads_,
                       .first_key = tokens_},
                      ctx_);
    attention_backward({.grad_q = heads_,
                        .grad_k = heads_,
                        .grad_v = heads_,
                        .grad_out = heads_,
                        .q = heads_,
                        .k = heads_,
                        .v = heads_,
                        .out = heads_,
                        .lse = lse_of_heads_,
                        .first_key = tokens_},
                       ctx_);
    swiglu_forward({.h = rows_, .x = gate_up_, .row_count = row_count_}, ctx_);
    swiglu_backward({.grad_x = gate_up_,
                     .weighted_h = rows_,
                     .grad_row_weight = scalar_per_row_,
                     .grad_h = rows_,
                     .x = gate_up_,
                     .row_weight = scalar_per_row_,
                     .row_count = row_count_},
                    ctx_);
    head_loss({.loss_sums = sums_,
               .grad_x = rows_,
               .grad_weight = weight_,
               .x = rows_,
               .weight = weight_,
               .targets = tokens_},
              ctx_);
  }

  void run_router() {
    router_select({.ids = ids_, .logits = logits_, .bias = bias_, .valid = valid_}, ctx_);
    forced_routes({.ids = ids_, .valid = valid_, .num_experts = kExperts}, ctx_);
    router_weights(
        {.weights = routes_, .lse = scalar_per_row_, .logits = logits_, .ids = ids_, .rule = {}},
        ctx_);
    router_statistics({.counts = counts_,
                       .score_sums = score_sums_,
                       .counts_total = expert_counts_,
                       .score_total = expert_scores_,
                       .z_sum = one_f64_,
                       .logits = logits_,
                       .lse = scalar_per_row_,
                       .ids = ids_},
                      ctx_);
    router_backward({.grad_logits = logits_,
                     .grad_weights = routes_,
                     .balance = balance_,
                     .logits = logits_,
                     .lse = scalar_per_row_,
                     .ids = ids_,
                     .rule = {}},
                    ctx_);
    balance_coefficients({.coefficients = balance_,
                          .loss_sum = one_f64_,
                          .counts = counts_,
                          .score_sums = score_sums_,
                          .previous = expert_counts_,
                          .source = BalanceCounts::kOfPreviousStep},
                         ctx_);
  }

  void run_routes() {
    route_order({.expert_begin = expert_begin_,
                 .row_of_route = ids_,
                 .route_of_row = route_of_row_,
                 .ids = ids_},
                ctx_);
    gather_rows({.grouped = grouped_,
                 .rows = rows_,
                 .route_of_row = route_of_row_,
                 .row_count = row_count_},
                ctx_);
    combine_rows({.out = rows_, .grouped = grouped_, .weights = routes_, .row_of_route = ids_},
                 ctx_);
    gather_scalars({.of_row = of_row_,
                    .of_route = routes_,
                    .route_of_row = route_of_row_,
                    .row_count = row_count_},
                   ctx_);
    collect_scalars({.of_route = routes_, .of_row = of_row_, .row_of_route = ids_}, ctx_);
    move_segments({.out = grouped_, .in = grouped_, .segments = segments_}, ctx_);
    grouped_matmul({.out = grouped_,
                    .rows = grouped_,
                    .weight = expert_weight_,
                    .left = {},
                    .expert_begin = expert_begin_},
                   ctx_);
    grouped_matmul({.out = expert_weight_,
                    .rows = grouped_,
                    .weight = {},
                    .left = grouped_,
                    .expert_begin = expert_begin_,
                    .form = MatmulForm::kTN},
                   ctx_);
  }

  void run_optimizer() {
    block_norms(
        {.sums = one_f64_, .x = rows_, .blocks = BlockRange::all(rows_.numel(), rows_.numel())},
        ctx_);
    norm_total({.norm_sq = one_f64_,
                .first_bad = one_f64_,
                .norm_sums = one_f64_,
                .tensor_begin = tensor_begin_},
               ctx_);
    step_gate({.gate = gate_,
               .windows = windows_,
               .loss = one_f64_,
               .norm_sq = one_f64_,
               .first_bad = one_f64_},
              ctx_);
    adamw({.param = rows_, .m = rows_, .v = rows_, .grad = rows_, .gate = gate_}, ctx_);
    router_bias({.bias = bias_, .counts = expert_counts_, .gate = gate_}, ctx_);
    keep_counts({.previous = expert_counts_, .counts = expert_counts_, .gate = gate_}, ctx_);
  }
};

TEST_F(FrontDoorAllocationTest, NoneWhileChecksHold) {
  const std::int64_t before = test::num_allocations();
  run_dense();
  run_router();
  run_routes();
  run_optimizer();
  EXPECT_EQ(test::num_allocations(), before);
  // Every slot of the table was called, and booked under its own name.
  EXPECT_EQ(meter_.entries().size(), 34U);
}

TEST_F(FrontDoorAllocationTest, TheCounterCounts) {
  const std::int64_t before = test::num_allocations();
  arena_.allocate(std::string(100, 'x'), DType::kF32, {1});
  EXPECT_GT(test::num_allocations(), before);
}

}  // namespace
}  // namespace ulmus::ops
