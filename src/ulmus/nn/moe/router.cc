#include "ulmus/nn/moe/router.h"

#include "ulmus/ops/matmul.h"

namespace ulmus::nn {

using ops::Accumulate;
using ops::MatmulForm;

Router::Router(const Config& config, ParameterSet& parameters, Arena& buffers_arena,
               const std::string& name)
    : name_(name),
      config_(config),
      routing_key_(philox_key(config.seed, RandomPurpose::kRandomRouting, name)) {
  params_.weight = parameters.add(name + ".weight", {config.num_experts, config.width},
                                  ParameterFamily::kDense, {.std = config.init_std});
  buffers_.previous_counts =
      buffers_arena.allocate(name + ".previous_counts", DType::kI64, {config.num_experts});
  if (config.has_bias) {
    buffers_.bias =
        buffers_arena.allocate(name + ".bias", parameters.dtype(), {config.num_experts});
  }
}

Router::Saved Router::allocate(Arena& arena, const std::string& name, std::int64_t max_sequences,
                               std::int64_t sequence_length) const {
  const DType dtype = params_.weight.value.dtype();
  const std::int64_t max_tokens = max_sequences * sequence_length;
  const std::int64_t groups = config_.balance_scope == BalanceScope::kSequence ? max_sequences : 1;
  return {.x = {},
          .logits = arena.allocate(name + ".logits", dtype, {max_tokens, config_.num_experts}),
          .lse = arena.allocate(name + ".lse", dtype, {max_tokens}),
          .ids = arena.allocate(name + ".ids", DType::kI32, {max_tokens, config_.top_k}),
          .weights = arena.allocate(name + ".weights", dtype, {max_tokens, config_.top_k}),
          .balance = arena.allocate(name + ".balance", dtype, {groups, config_.num_experts})};
}

Router::Pending Router::allocate_pending(Arena& arena, const std::string& name,
                                         std::int64_t max_tokens) const {
  return {.grad_logits = arena.allocate(name + ".grad_logits", params_.weight.value.dtype(),
                                        {max_tokens, config_.num_experts})};
}

void Router::select(const Batch& batch, const StepScale& scale, const Saved& saved,
                    const ExecContext& ctx) const {
  const std::int64_t n = batch.num_tokens();
  const TensorView ids = saved.ids.rows(0, n);
  if (config_.routing == Routing::kLearned) {
    ops::router_select({.ids = ids,
                        .logits = saved.logits.rows(0, n),
                        .bias = buffers_.bias,
                        .valid = batch.valid,
                        .gate = config_.rule.gate},
                       ctx);
    return;
  }
  ops::forced_routes({.ids = ids,
                      .valid = batch.valid,
                      .routing = config_.routing == Routing::kRandom ? ops::ForcedRouting::kRandom
                                                                     : ops::ForcedRouting::kUniform,
                      .num_experts = config_.num_experts,
                      .key = routing_key_,
                      .step = scale.step,
                      .first_token = scale.first_token},
                     ctx);
}

void Router::balance(const Batch& batch, const StepScale& scale, const Saved& saved,
                     const RouterRecord& record, const ExecContext& ctx) const {
  const std::int64_t n = batch.num_tokens();
  const std::int64_t groups =
      config_.balance_scope == BalanceScope::kSequence ? batch.num_sequences : 1;
  ScratchScope scratch(ctx.workspace);
  const TensorView counts = scratch.take(DType::kI64, {groups, config_.num_experts});
  const TensorView score_sums = scratch.take(DType::kF64, {groups, config_.num_experts});
  ops::router_statistics({.counts = counts,
                          .score_sums = score_sums,
                          .counts_total = record.counts,
                          .score_total = record.score_sums,
                          .z_sum = record.z_sum,
                          .logits = saved.logits.rows(0, n),
                          .lse = saved.lse.rows(0, n),
                          .ids = saved.ids.rows(0, n),
                          .gate = config_.rule.gate},
                         ctx);
  ops::balance_coefficients(
      {.coefficients = saved.balance.rows(0, groups),
       .loss_sum = record.balance_sum,
       .counts = counts,
       .score_sums = score_sums,
       .previous = buffers_.previous_counts,
       .source = config_.balance_scope == BalanceScope::kStep ? ops::BalanceCounts::kOfPreviousStep
                                                              : ops::BalanceCounts::kOfGroup,
       .step_tokens = scale.routed_tokens,
       .weight = config_.balance_weight},
      ctx);
}

void Router::forward(ConstTensorView x, const Batch& batch, const StepScale& scale, Saved& saved,
                     const RouterRecord& record, const ExecContext& ctx) const {
  const std::int64_t n = batch.num_tokens();
  saved.x = x;
  const TensorView logits = saved.logits.rows(0, n);
  ops::matmul({.out = logits, .a = x, .b = params_.weight.value}, ctx);
  select(batch, scale, saved, ctx);
  if (config_.tape != nullptr) {
    config_.tape->on_routes(*this, scale, saved.ids.rows(0, n), logits, ctx);
  }
  ops::router_weights({.weights = saved.weights.rows(0, n),
                       .lse = saved.lse.rows(0, n),
                       .logits = logits,
                       .ids = saved.ids.rows(0, n),
                       .rule = config_.rule},
                      ctx);
  balance(batch, scale, saved, record, ctx);
}

void Router::backward_input(TensorView grad_x, ConstTensorView grad_weights, const Batch& batch,
                            const StepScale& scale, const Saved& saved, Pending& pending,
                            const ExecContext& ctx) const {
  const std::int64_t n = grad_weights.dim(0);
  const std::int64_t groups =
      config_.balance_scope == BalanceScope::kSequence ? batch.num_sequences : 1;
  const TensorView grad_logits = pending.grad_logits.rows(0, n);
  ops::router_backward({.grad_logits = grad_logits,
                        .grad_weights = grad_weights,
                        .balance = saved.balance.rows(0, groups),
                        .logits = saved.logits.rows(0, n),
                        .lse = saved.lse.rows(0, n),
                        .ids = saved.ids.rows(0, n),
                        .rule = config_.rule,
                        .z_coefficient = config_.z_weight / scale.routed_tokens},
                       ctx);
  ops::matmul({.out = grad_x,
               .a = grad_logits,
               .b = params_.weight.value,
               .form = MatmulForm::kNN,
               .accumulate = Accumulate::kAdd},
              ctx);
}

void Router::backward_weight(const Saved& saved, const Pending& pending,
                             const ExecContext& ctx) const {
  ops::matmul({.out = params_.weight.grad,
               .a = pending.grad_logits.rows(0, saved.x.dim(0)),
               .b = saved.x,
               .form = MatmulForm::kTN,
               .accumulate = Accumulate::kAdd},
              ctx);
}

}  // namespace ulmus::nn
