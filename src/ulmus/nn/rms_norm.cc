#include "ulmus/nn/rms_norm.h"

#include "ulmus/ops/rms_norm.h"

namespace ulmus::nn {

RmsNorm::RmsNorm(const Config& config, ParameterSet& parameters, const std::string& name)
    : config_(config),
      params_{.weight = parameters.add(name + ".weight", {config.width}, ParameterFamily::kDense,
                                       {.std = 0.0})} {}

RmsNorm::Saved RmsNorm::allocate(Arena& arena, const std::string& name, std::int64_t max_rows,
                                 DType dtype) {
  return {.x = {}, .inv_rms = arena.allocate(name + ".inv_rms", dtype, {max_rows})};
}

void RmsNorm::forward(TensorView y, ConstTensorView x, Saved& saved, const ExecContext& ctx) const {
  saved.x = x;
  ops::rms_norm_forward({.y = y,
                         .inv_rms = saved.inv_rms.rows(0, x.dim(0)),
                         .x = x,
                         .weight = params_.weight.value,
                         .eps = config_.eps},
                        ctx);
}

void RmsNorm::backward_input(TensorView grad_x, ConstTensorView grad_y, const Saved& saved,
                             ops::Accumulate accumulate, const ExecContext& ctx) const {
  ops::rms_norm_backward({.grad_x = grad_x,
                          .grad_weight = params_.weight.grad,
                          .grad_y = grad_y,
                          .x = saved.x,
                          .weight = params_.weight.value,
                          .inv_rms = saved.inv_rms.rows(0, grad_y.dim(0)),
                          .accumulate = accumulate},
                         ctx);
}

}  // namespace ulmus::nn
