#include "ulmus/nn/moe/experts.h"

#include "ulmus/ops/grouped_matmul.h"
#include "ulmus/ops/swiglu.h"

namespace ulmus::nn {

using ops::MatmulForm;

Experts::Experts(const Config& config, ParameterSet& parameters, const std::string& name)
    : config_(config),
      params_{.gate_up = parameters.add(name + ".gate_up.weight",
                                        {config.num_experts, 2 * config.hidden, config.width},
                                        ParameterFamily::kExpert, {.std = config.init_std}),
              .down = parameters.add(name + ".down.weight",
                                     {config.num_experts, config.width, config.hidden},
                                     ParameterFamily::kExpert, {.std = config.init_std})} {}

Experts::Saved Experts::allocate(Arena& arena, const std::string& name,
                                 std::int64_t row_capacity) const {
  const DType dtype = params_.down.value.dtype();
  return {.rows = arena.allocate(name + ".rows", dtype, {row_capacity, config_.width}),
          .gate_up = arena.allocate(name + ".gate_up", dtype, {row_capacity, 2 * config_.hidden})};
}

Experts::Pending Experts::allocate_pending(Arena& arena, const std::string& name,
                                           std::int64_t row_capacity) const {
  const DType dtype = params_.down.value.dtype();
  return {.grad_out = arena.allocate(name + ".grad_out", dtype, {row_capacity, config_.width}),
          .grad_gate_up =
              arena.allocate(name + ".grad_gate_up", dtype, {row_capacity, 2 * config_.hidden}),
          .hidden = arena.allocate(name + ".hidden", dtype, {row_capacity, config_.hidden})};
}

void Experts::forward(TensorView out, const Saved& saved, const ExchangePlan& plan,
                      const ExecContext& ctx) const {
  ScratchScope scratch(ctx.workspace);
  const TensorView hidden = scratch.take(out.dtype(), {plan.row_capacity, config_.hidden});
  ops::grouped_matmul({.out = saved.gate_up,
                       .rows = saved.rows,
                       .weight = params_.gate_up.value,
                       .left = {},
                       .expert_begin = plan.expert_begin,
                       .form = MatmulForm::kNT,
                       .booked_rows = plan.booked_rows},
                      ctx);
  ops::swiglu_forward({.h = hidden,
                       .x = saved.gate_up,
                       .row_count = plan.row_count(),
                       .booked_rows = plan.booked_rows},
                      ctx);
  ops::grouped_matmul({.out = out,
                       .rows = hidden,
                       .weight = params_.down.value,
                       .left = {},
                       .expert_begin = plan.expert_begin,
                       .form = MatmulForm::kNT,
                       .booked_rows = plan.booked_rows},
                      ctx);
}

void Experts::backward_input(TensorView grad_rows, TensorView grad_row_weight,
                             ConstTensorView row_weight, const Saved& saved, Pending& pending,
                             const ExchangePlan& plan, const ExecContext& ctx) const {
  ops::grouped_matmul({.out = pending.hidden,
                       .rows = pending.grad_out,
                       .weight = params_.down.value,
                       .left = {},
                       .expert_begin = plan.expert_begin,
                       .form = MatmulForm::kNN,
                       .booked_rows = plan.booked_rows},
                      ctx);
  ops::swiglu_backward({.grad_x = pending.grad_gate_up,
                        .weighted_h = pending.hidden,
                        .grad_row_weight = grad_row_weight,
                        .grad_h = pending.hidden,
                        .x = saved.gate_up,
                        .row_weight = row_weight,
                        .row_count = plan.row_count(),
                        .booked_rows = plan.booked_rows},
                       ctx);
  ops::grouped_matmul({.out = grad_rows,
                       .rows = pending.grad_gate_up,
                       .weight = params_.gate_up.value,
                       .left = {},
                       .expert_begin = plan.expert_begin,
                       .form = MatmulForm::kNN,
                       .booked_rows = plan.booked_rows},
                      ctx);
}

void Experts::backward_weight(const Saved& saved, const Pending& pending, const ExchangePlan& plan,
                              const ExecContext& ctx) const {
  ops::grouped_matmul({.out = params_.down.grad,
                       .rows = pending.hidden,
                       .weight = {},
                       .left = pending.grad_out,
                       .expert_begin = plan.expert_begin,
                       .form = MatmulForm::kTN,
                       .booked_rows = plan.booked_rows},
                      ctx);
  ops::grouped_matmul({.out = params_.gate_up.grad,
                       .rows = saved.rows,
                       .weight = {},
                       .left = pending.grad_gate_up,
                       .expert_begin = plan.expert_begin,
                       .form = MatmulForm::kTN,
                       .booked_rows = plan.booked_rows},
                      ctx);
}

}  // namespace ulmus::nn
