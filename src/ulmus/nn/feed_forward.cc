#include "ulmus/nn/feed_forward.h"

#include "ulmus/ops/matmul.h"
#include "ulmus/ops/swiglu.h"

namespace ulmus::nn {

using ops::Accumulate;
using ops::MatmulForm;

FeedForward::FeedForward(const Config& config, ParameterSet& parameters, const std::string& name)
    : config_(config),
      params_{.gate_up = parameters.add(name + ".gate_up.weight", {2 * config.hidden, config.width},
                                        ParameterFamily::kDense, {.std = config.init_std}),
              .down = parameters.add(name + ".down.weight", {config.width, config.hidden},
                                     ParameterFamily::kDense, {.std = config.init_std})} {}

FeedForward::Saved FeedForward::allocate(Arena& arena, const std::string& name,
                                         std::int64_t max_tokens) const {
  const DType dtype = params_.down.value.dtype();
  return {.x = {},
          .gate_up = arena.allocate(name + ".gate_up", dtype, {max_tokens, 2 * config_.hidden})};
}

FeedForward::Pending FeedForward::allocate_pending(Arena& arena, const std::string& name,
                                                   std::int64_t max_tokens) const {
  const DType dtype = params_.down.value.dtype();
  return {.grad_y = {},
          .grad_gate_up =
              arena.allocate(name + ".grad_gate_up", dtype, {max_tokens, 2 * config_.hidden}),
          .hidden = arena.allocate(name + ".hidden", dtype, {max_tokens, config_.hidden})};
}

void FeedForward::forward(TensorView y, ConstTensorView x, Saved& saved,
                          const ExecContext& ctx) const {
  const std::int64_t n = x.dim(0);
  saved.x = x;
  const TensorView gate_up = saved.gate_up.rows(0, n);
  ScratchScope scratch(ctx.workspace);
  const TensorView hidden = scratch.take(x.dtype(), {n, config_.hidden});
  ops::matmul({.out = gate_up, .a = x, .b = params_.gate_up.value}, ctx);
  ops::swiglu_forward({.h = hidden, .x = gate_up, .row_count = {}, .booked_rows = n}, ctx);
  ops::matmul({.out = y, .a = hidden, .b = params_.down.value}, ctx);
}

void FeedForward::backward_input(TensorView grad_x, ConstTensorView grad_y, const Saved& saved,
                                 Pending& pending, const ExecContext& ctx) const {
  const std::int64_t n = grad_y.dim(0);
  pending.grad_y = grad_y;
  const TensorView hidden = pending.hidden.rows(0, n);
  const TensorView grad_gate_up = pending.grad_gate_up.rows(0, n);
  ops::matmul({.out = hidden, .a = grad_y, .b = params_.down.value, .form = MatmulForm::kNN}, ctx);
  ops::swiglu_backward({.grad_x = grad_gate_up,
                        .weighted_h = hidden,
                        .grad_row_weight = {},
                        .grad_h = hidden,
                        .x = saved.gate_up.rows(0, n),
                        .row_weight = {},
                        .row_count = {},
                        .booked_rows = n},
                       ctx);
  ops::matmul(
      {.out = grad_x, .a = grad_gate_up, .b = params_.gate_up.value, .form = MatmulForm::kNN}, ctx);
}

void FeedForward::backward_weight(const Saved& saved, const Pending& pending,
                                  const ExecContext& ctx) const {
  const std::int64_t n = pending.grad_y.dim(0);
  ops::matmul({.out = params_.down.grad,
               .a = pending.grad_y,
               .b = pending.hidden.rows(0, n),
               .form = MatmulForm::kTN,
               .accumulate = Accumulate::kAdd},
              ctx);
  ops::matmul({.out = params_.gate_up.grad,
               .a = pending.grad_gate_up.rows(0, n),
               .b = saved.x,
               .form = MatmulForm::kTN,
               .accumulate = Accumulate::kAdd},
              ctx);
}

}  // namespace ulmus::nn
