// A rank may take part in a micro-batch without tokens, and own experts without rows. Every
// operation then does what its formula says of empty sums: what is added to stays as it is, bit for
// bit; what is overwritten and not empty becomes zero.
#include <gtest/gtest.h>

#include <string>

#include "tests/ops/empty_operands.h"
#include "ulmus/ops/kernels.h"

namespace ulmus::ops {
namespace {

using test::Operands;

constexpr std::int64_t kExperts = 5;
constexpr std::int64_t kTopK = 2;
constexpr std::int64_t kWidth = 19;

void run_elementwise(Operands& t) {
  fill({.x = t.none({0, kWidth}), .value = 3.0}, t.ctx);
  fill({.x = t.none(DType::kI32, {0}), .value = 3.0}, t.ctx);
  copy({.y = t.none({0, kWidth}), .x = t.none({0, kWidth})}, t.ctx);
  add({.y = t.none({0, kWidth}), .a = t.none({0, kWidth}), .b = t.none({0, kWidth})}, t.ctx);
}

void run_matmul(Operands& t) {
  using enum MatmulForm;
  for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
    const auto product = [&](MatmulForm form, TensorView out, TensorView a, TensorView b) {
      matmul({.out = out, .a = a, .b = b, .form = form, .accumulate = accumulate}, t.ctx);
    };
    const auto out = [&](const Shape& shape) {
      return accumulate == Accumulate::kAdd ? t.kept(shape) : t.zeroed(shape);
    };
    product(kNT, t.none({0, 4}), t.none({0, kWidth}), t.kept({4, kWidth}));
    product(kNN, t.none({0, 4}), t.none({0, kWidth}), t.kept({kWidth, 4}));
    product(kTN, t.none({0, 4}), t.none({kWidth, 0}), t.kept({kWidth, 4}));
    product(kNT, t.none({3, 0}), t.kept({3, kWidth}), t.none({0, kWidth}));
    product(kNT, out({3, 4}), t.none({3, 0}), t.none({4, 0}));
    product(kNN, out({3, 4}), t.none({3, 0}), t.none({0, 4}));
    product(kTN, out({3, kWidth}), t.none({0, 3}), t.none({0, kWidth}));
    product(kTN, out({3, 8}).narrow(1, 0, 8), t.none({0, 3}), t.none({0, 8}));
  }
}

void run_grouped_matmul(Operands& t) {
  const TensorView begin = t.zeros(DType::kI32, {kExperts + 1});
  for (const std::int64_t capacity : {0, 3}) {
    const auto rows = [&](std::int64_t width) {
      return capacity == 0 ? t.none({0, width}) : t.kept({capacity, width});
    };
    for (const MatmulForm form : {MatmulForm::kNT, MatmulForm::kNN}) {
      const TensorView weight =
          t.kept(form == MatmulForm::kNT ? Shape{kExperts, 4, kWidth} : Shape{kExperts, kWidth, 4});
      grouped_matmul({.out = rows(4),
                      .rows = rows(kWidth),
                      .weight = weight,
                      .left = {},
                      .expert_begin = begin,
                      .form = form},
                     t.ctx);
    }
    grouped_matmul({.out = t.kept({kExperts, 4, kWidth}),
                    .rows = rows(kWidth),
                    .weight = {},
                    .left = rows(4),
                    .expert_begin = begin,
                    .form = MatmulForm::kTN},
                   t.ctx);
  }
}

void run_embedding(Operands& t) {
  const TensorView ids = t.none(DType::kI32, {0});
  embedding_forward({.y = t.none({0, kWidth}), .weight = t.kept({7, kWidth}), .ids = ids}, t.ctx);
  embedding_backward(
      {.grad_weight = t.kept({7, kWidth}), .grad_y = t.none({0, kWidth}), .ids = ids, .scale = 3.0},
      t.ctx);
}

void run_rms_norm(Operands& t) {
  const TensorView weight = t.kept({kWidth});
  const TensorView inv_rms = t.none({0});
  rms_norm_forward(
      {.y = t.none({0, kWidth}), .inv_rms = inv_rms, .x = t.none({0, kWidth}), .weight = weight},
      t.ctx);
  for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
    rms_norm_backward({.grad_x = t.none({0, kWidth}),
                       .grad_weight = t.kept({kWidth}),
                       .grad_y = t.none({0, kWidth}),
                       .x = t.none({0, kWidth}),
                       .weight = weight,
                       .inv_rms = inv_rms,
                       .accumulate = accumulate},
                      t.ctx);
  }
}

void run_rope(Operands& t) {
  for (const RopeDirection direction : {RopeDirection::kForward, RopeDirection::kBackward}) {
    rope({.y = t.none({0, 3, 8}),
          .x = t.none({0, 3, 8}),
          .table = t.kept({9, 8}),
          .positions = t.none(DType::kI32, {0}),
          .direction = direction},
         t.ctx);
  }
}

void run_attention_forward(Operands& t) {
  const auto attend = [&](std::int64_t num_sequences, TensorView k, TensorView v) {
    attention_forward({.out = t.none({0, 4, 8}),
                       .lse = t.none({0, 4}),
                       .q = t.none({0, 4, 8}),
                       .k = k,
                       .v = v,
                       .first_key = t.none(DType::kI32, {0}),
                       .num_sequences = num_sequences,
                       .window = 3},
                      t.ctx);
  };
  for (const std::int64_t num_sequences : {0, 1, 3})
    attend(num_sequences, t.none({0, 2, 8}), t.none({0, 2, 8}));
  attend(2, t.kept({6, 2, 8}), t.kept({6, 2, 8}));  // a cache of keys, and nobody who asks
}

void run_attention_backward(Operands& t) {
  for (const std::int64_t num_sequences : {0, 1, 3}) {
    attention_backward({.grad_q = t.none({0, 4, 8}),
                        .grad_k = t.none({0, 2, 8}),
                        .grad_v = t.none({0, 2, 8}),
                        .grad_out = t.none({0, 4, 8}),
                        .q = t.none({0, 4, 8}),
                        .k = t.none({0, 2, 8}),
                        .v = t.none({0, 2, 8}),
                        .out = t.none({0, 4, 8}),
                        .lse = t.none({0, 4}),
                        .first_key = t.none(DType::kI32, {0}),
                        .num_sequences = num_sequences},
                       t.ctx);
  }
}

void run_swiglu(Operands& t) {
  for (const std::int64_t capacity : {0, 3}) {
    const auto rows = [&](std::int64_t width) {
      return capacity == 0 ? t.none({0, width}) : t.kept({capacity, width});
    };
    const auto scalars = [&] { return capacity == 0 ? t.none({0}) : t.kept({capacity}); };
    const TensorView count = t.zeros(DType::kI32, {1});
    // Without a count all rows are in use.
    for (const TensorView& row_count : {count, capacity == 0 ? TensorView() : count}) {
      swiglu_forward({.h = rows(kWidth), .x = rows(2 * kWidth), .row_count = row_count}, t.ctx);
      swiglu_backward({.grad_x = rows(2 * kWidth),
                       .weighted_h = rows(kWidth),
                       .grad_row_weight = scalars(),
                       .grad_h = rows(kWidth),
                       .x = rows(2 * kWidth),
                       .row_weight = scalars(),
                       .row_count = row_count},
                      t.ctx);
    }
  }
}

void run_head_loss(Operands& t) {
  for (const bool with_gradients : {true, false}) {
    head_loss({.loss_sums = t.kept(DType::kF64, {2}),
               .grad_x = with_gradients ? t.none({0, kWidth}) : TensorView(),
               .grad_weight = with_gradients ? t.kept({7, kWidth}) : TensorView(),
               .x = t.none({0, kWidth}),
               .weight = t.kept({7, kWidth}),
               .targets = t.none(DType::kI32, {0}),
               .scale = 0.25,
               .z_coefficient = 1e-3},
              t.ctx);
  }
}

void run_router_forward(Operands& t) {
  const TensorView logits = t.none({0, kExperts});
  const TensorView ids = t.none(DType::kI32, {0, kTopK});
  const TensorView valid = t.none(DType::kU8, {0});
  for (const TensorView& bias : {TensorView(), t.kept({kExperts})})
    router_select({.ids = ids, .logits = logits, .bias = bias, .valid = valid}, t.ctx);
  for (const ForcedRouting routing : {ForcedRouting::kRandom, ForcedRouting::kUniform})
    forced_routes(
        {.ids = ids, .valid = valid, .routing = routing, .num_experts = kExperts, .step = 3},
        t.ctx);
  router_weights(
      {.weights = t.none({0, kTopK}), .lse = t.none({0}), .logits = logits, .ids = ids, .rule = {}},
      t.ctx);
}

void run_router_statistics(Operands& t) {
  for (const std::int64_t groups : {0, 1, 3}) {
    const auto of_groups = [&](DType type) {
      return groups == 0 ? t.none(type, {0, kExperts}) : t.zeroed(type, {groups, kExperts});
    };
    router_statistics({.counts = of_groups(DType::kI64),
                       .score_sums = of_groups(DType::kF64),
                       .counts_total = t.kept(DType::kI64, {kExperts}),
                       .score_total = t.kept(DType::kF64, {kExperts}),
                       .z_sum = t.kept(DType::kF64, {1}),
                       .logits = t.none({0, kExperts}),
                       .lse = t.none({0}),
                       .ids = t.none(DType::kI32, {0, kTopK})},
                      t.ctx);
  }
}

void run_router_backward(Operands& t) {
  for (const std::int64_t groups : {0, 1, 3}) {
    router_backward({.grad_logits = t.none({0, kExperts}),
                     .grad_weights = t.none({0, kTopK}),
                     .balance = groups == 0 ? t.none({0, kExperts}) : t.kept({groups, kExperts}),
                     .logits = t.none({0, kExperts}),
                     .lse = t.none({0}),
                     .ids = t.none(DType::kI32, {0, kTopK}),
                     .rule = {},
                     .z_coefficient = 1e-3},
                    t.ctx);
  }
}

void run_balance_coefficients(Operands& t) {
  for (const std::int64_t groups : {0, 3}) {
    const auto zeros = [&](DType type) {
      return groups == 0 ? t.none(type, {0, kExperts}) : t.zeros(type, {groups, kExperts});
    };
    for (const BalanceCounts source : {BalanceCounts::kOfGroup, BalanceCounts::kOfPreviousStep}) {
      // The previous step's fractions give coefficients also to groups without tokens.
      if (groups > 0 && source == BalanceCounts::kOfPreviousStep) continue;
      balance_coefficients(
          {.coefficients = groups == 0 ? t.none({0, kExperts}) : t.zeroed({groups, kExperts}),
           .loss_sum = t.kept(DType::kF64, {1}),
           .counts = zeros(DType::kI64),
           .score_sums = zeros(DType::kF64),
           .previous = t.kept(DType::kI64, {kExperts}),
           .source = source,
           .step_tokens = 8.0,
           .weight = 0.5},
          t.ctx);
    }
  }
}

void run_route_order(Operands& t) {
  route_order({.expert_begin = t.zeroed(DType::kI32, {kExperts + 1}),
               .row_of_route = t.none(DType::kI32, {0, kTopK}),
               .route_of_row = t.none(DType::kI32, {0}),
               .ids = t.none(DType::kI32, {0, kTopK})},
              t.ctx);
}

void run_gather_rows(Operands& t) {
  for (const std::int64_t capacity : {0, 3}) {
    for (const std::int64_t tokens : {0, 2}) {
      gather_rows({.grouped = capacity == 0 ? t.none({0, kWidth}) : t.kept({capacity, kWidth}),
                   .rows = tokens == 0 ? t.none({0, kWidth}) : t.kept({tokens, kWidth}),
                   .route_of_row =
                       capacity == 0 ? t.none(DType::kI32, {0}) : t.kept(DType::kI32, {capacity}),
                   .row_count = t.zeros(DType::kI32, {1}),
                   .top_k = kTopK},
                  t.ctx);
    }
  }
}

void run_combine_rows(Operands& t) {
  for (const std::int64_t capacity : {0, 3}) {
    const TensorView grouped = capacity == 0 ? t.none({0, kWidth}) : t.kept({capacity, kWidth});
    for (const bool is_weighted : {true, false}) {
      combine_rows({.out = t.none({0, kWidth}),
                    .grouped = grouped,
                    .weights = is_weighted ? t.none({0, kTopK}) : TensorView(),
                    .row_of_route = t.none(DType::kI32, {0, kTopK})},
                   t.ctx);
      combine_rows({.out = t.zeroed({2, kWidth}),
                    .grouped = grouped,
                    .weights = is_weighted ? t.kept({2, kTopK}) : TensorView(),
                    .row_of_route = t.no_routes({2, kTopK})},
                   t.ctx);
    }
  }
}

void run_scalars(Operands& t) {
  for (const std::int64_t capacity : {0, 3}) {
    const TensorView of_row = capacity == 0 ? t.none({0}) : t.kept({capacity});
    gather_scalars(
        {.of_row = of_row,
         .of_route = t.none({0, kTopK}),
         .route_of_row = capacity == 0 ? t.none(DType::kI32, {0}) : t.kept(DType::kI32, {capacity}),
         .row_count = t.zeros(DType::kI32, {1})},
        t.ctx);
    collect_scalars({.of_route = t.none({0, kTopK}),
                     .of_row = of_row,
                     .row_of_route = t.none(DType::kI32, {0, kTopK})},
                    t.ctx);
    collect_scalars({.of_route = t.zeroed({2, kTopK}),
                     .of_row = of_row,
                     .row_of_route = t.no_routes({2, kTopK})},
                    t.ctx);
  }
}

void run_move_segments(Operands& t) {
  const auto move = [&](TensorView out, TensorView in, std::int64_t num_segments) {
    const TensorView segments =
        num_segments == 0 ? t.none(DType::kI64, {0, 3}) : t.zeros(DType::kI64, {num_segments, 3});
    move_segments({.out = out, .in = in, .segments = segments}, t.ctx);
  };
  for (const std::int64_t num_segments : {0, 4}) {
    move(t.none({0, kWidth}), t.none({0, kWidth}), num_segments);
    move(t.kept({3, kWidth}), t.none({0, kWidth}), num_segments);
    move(t.none({0, kWidth}), t.kept({3, kWidth}), num_segments);
    move(t.kept({3, kWidth}), t.kept({3, kWidth}), num_segments);
    move(t.none({0}), t.kept({3}), num_segments);
    move(t.kept({3}), t.none({0}), num_segments);
  }
}

struct Case {
  const char* name;
  void (*run)(Operands& operands);
};
constexpr Case kCases[] = {{"Elementwise", run_elementwise},
                           {"Matmul", run_matmul},
                           {"GroupedMatmul", run_grouped_matmul},
                           {"Embedding", run_embedding},
                           {"RmsNorm", run_rms_norm},
                           {"Rope", run_rope},
                           {"AttentionForward", run_attention_forward},
                           {"AttentionBackward", run_attention_backward},
                           {"Swiglu", run_swiglu},
                           {"HeadLoss", run_head_loss},
                           {"RouterForward", run_router_forward},
                           {"RouterStatistics", run_router_statistics},
                           {"RouterBackward", run_router_backward},
                           {"BalanceCoefficients", run_balance_coefficients},
                           {"RouteOrder", run_route_order},
                           {"GatherRows", run_gather_rows},
                           {"CombineRows", run_combine_rows},
                           {"Scalars", run_scalars},
                           {"MoveSegments", run_move_segments}};

class ZeroTokens : public testing::TestWithParam<Case> {};

TEST_P(ZeroTokens, DoesWhatTheFormulaSays) {
  for (const test::Setup& setup : test::kSetups) {
    for (const test::Window window : {test::Window::kInsideOthers, test::Window::kNowhere}) {
      SCOPED_TRACE(std::string(setup.name) +
                   (window == test::Window::kNowhere ? ", no address" : ""));
      Operands operands(setup, window);
      ASSERT_NO_THROW(GetParam().run(operands));
      operands.expect_met();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZeroTokens, testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace ulmus::ops
