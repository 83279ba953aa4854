#include "ulmus/nn/moe/moe.h"

#include "ulmus/ops/elementwise.h"

namespace ulmus::nn {

Moe::Moe(const Config& config, TokenExchange& exchange, ParameterSet& parameters,
         Arena& buffers_arena, const std::string& name)
    : config_(config),
      exchange_(&exchange),
      router_({.width = config.width,
               .num_experts = config.moe.experts,
               .top_k = config.moe.top_k,
               .rule = config.moe.rule,
               .routing = config.moe.routing,
               .balance_scope = config.moe.balance_scope,
               .balance_weight = config.moe.balance_loss,
               .z_weight = config.moe.z_loss,
               .has_bias = config.moe.bias_update > 0.0,
               .init_std = config.init_std,
               .seed = config.seed,
               .tape = config.tape},
              parameters, buffers_arena, name + ".router") {
  if (has_shared()) {
    shared_ = FeedForward(
        {.width = config.width, .hidden = config.moe.shared_hidden, .init_std = config.init_std},
        parameters, name + ".shared");
  }
  // Last: the dense parameters of a unit lie together.
  experts_ = Experts({.width = config.width,
                      .hidden = config.moe.expert_hidden,
                      .num_experts = config.moe.experts,
                      .init_std = config.init_std},
                     parameters, name + ".experts");
}

Moe::Saved Moe::allocate(Arena& arena, const std::string& name, std::int64_t max_sequences,
                         std::int64_t sequence_length) const {
  const std::int64_t max_tokens = max_sequences * sequence_length;
  Saved saved;
  saved.router = router_.allocate(arena, name + ".router", max_sequences, sequence_length);
  saved.plan = exchange_->allocate_plan(arena, max_tokens, config_.moe.experts, config_.moe.top_k);
  saved.experts = experts_.allocate(arena, name + ".experts", saved.plan.row_capacity);
  if (has_shared()) saved.shared = shared_.allocate(arena, name + ".shared", max_tokens);
  return saved;
}

Moe::Pending Moe::allocate_pending(Arena& arena, const std::string& name,
                                   std::int64_t max_tokens) const {
  Pending pending;
  pending.router = router_.allocate_pending(arena, name + ".router", max_tokens);
  pending.experts = experts_.allocate_pending(
      arena, name + ".experts",
      exchange_->row_capacity(max_tokens, config_.moe.experts, config_.moe.top_k));
  if (has_shared()) pending.shared = shared_.allocate_pending(arena, name + ".shared", max_tokens);
  return pending;
}

void Moe::forward(TensorView y, ConstTensorView x, const Batch& batch, const StepScale& scale,
                  Saved& saved, const RouterRecord& record, const ExecContext& ctx) const {
  const std::int64_t n = x.dim(0);
  router_.forward(x, batch, scale, saved.router, record, ctx);
  exchange_->plan(saved.plan, saved.router.ids.rows(0, n), batch.valid_tokens, ctx);
  exchange_->dispatch(saved.experts.rows, x, saved.plan, ctx);
  ScratchScope scratch(ctx.workspace);
  {
    ScratchScope inner(ctx.workspace);
    const TensorView out = inner.take(x.dtype(), {saved.plan.row_capacity, config_.width});
    experts_.forward(out, saved.experts, saved.plan, ctx);
    exchange_->combine(y, out, saved.router.weights.rows(0, n), saved.plan, ctx);
  }
  if (has_shared()) {
    const TensorView shared = scratch.take(x.dtype(), x.shape());
    shared_.forward(shared, x, saved.shared, ctx);
    ops::add({.y = y, .a = y, .b = shared}, ctx);
  }
}

void Moe::backward_input(TensorView grad_x, ConstTensorView grad_y, const Batch& batch,
                         const StepScale& scale, const Saved& saved, Pending& pending,
                         const ExecContext& ctx) const {
  const std::int64_t n = grad_y.dim(0);
  const DType dtype = grad_y.dtype();
  const std::int64_t rows = saved.plan.row_capacity;
  ScratchScope scratch(ctx.workspace);
  const TensorView grad_weights = scratch.take(dtype, {n, config_.moe.top_k});
  {
    ScratchScope inner(ctx.workspace);
    const TensorView row_weight = inner.take(dtype, {rows});
    const TensorView grad_row_weight = inner.take(dtype, {rows});
    const TensorView grad_rows = inner.take(dtype, {rows, config_.width});
    exchange_->dispatch(pending.experts.grad_out, grad_y, saved.plan, ctx);
    exchange_->dispatch_scalars(row_weight, saved.router.weights.rows(0, n), saved.plan, ctx);
    experts_.backward_input(grad_rows, grad_row_weight, row_weight, saved.experts, pending.experts,
                            saved.plan, ctx);
    exchange_->collect_scalars(grad_weights, grad_row_weight, saved.plan, ctx);
    exchange_->combine(grad_x, grad_rows, {}, saved.plan, ctx);
  }
  router_.backward_input(grad_x, grad_weights, batch, scale, saved.router, pending.router, ctx);
  if (has_shared()) {
    const TensorView grad_shared = scratch.take(dtype, grad_x.shape());
    shared_.backward_input(grad_shared, grad_y, saved.shared, pending.shared, ctx);
    ops::add({.y = grad_x, .a = grad_x, .b = grad_shared}, ctx);
  }
}

void Moe::backward_weight(const Saved& saved, const Pending& pending,
                          const ExecContext& ctx) const {
  experts_.backward_weight(saved.experts, pending.experts, saved.plan, ctx);
  router_.backward_weight(saved.router, pending.router, ctx);
  if (has_shared()) shared_.backward_weight(saved.shared, pending.shared, ctx);
}

}  // namespace ulmus::nn
