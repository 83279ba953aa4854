#pragma once

#include "ulmus/device/exec_context.h"
#include "ulmus/ops/elementwise.h"

namespace ulmus::ops {

/// Root-mean-square normalisation of each row (Zhang and Sennrich 2019).
///
///   inv_rms[n] = 1 / sqrt(mean_d(x[n, d]^2) + eps)
///   y[n, d]    = x[n, d] * inv_rms[n] * weight[d]
///
///   y        [N, D]  out, overwritten; may be the same memory as x
///   inv_rms  [N]     out, overwritten; kept for rms_norm_backward
///   x        [N, D]  in
///   weight   [D]     in
/// A norm of each head is the same operation on [N * H, P]. All contiguous, one float dtype.
struct RmsNormForwardArgs {
  TensorView y;
  TensorView inv_rms;
  ConstTensorView x;
  ConstTensorView weight;
  double eps = 1e-6;
};
void rms_norm_forward(const RmsNormForwardArgs& args, const ExecContext& ctx);

/// With xhat = x * inv_rms and g = grad_y * weight:
///
///   grad_x[n, d]    (=|+=) inv_rms[n] * (g[n, d] - xhat[n, d] * mean_d(g[n, :] * xhat[n, :]))
///   grad_weight[d]  += sum_n grad_y[n, d] * xhat[n, d]
///
///   grad_x       [N, D]  out, overwritten or added to; may be the same memory as grad_y when
///                        overwritten
///   grad_weight  [D]     out, added to; rows are summed in a fixed order
///   grad_y, x    [N, D]  in
///   weight       [D]     in
///   inv_rms      [N]     in, from the forward call
struct RmsNormBackwardArgs {
  TensorView grad_x;
  TensorView grad_weight;
  ConstTensorView grad_y;
  ConstTensorView x;
  ConstTensorView weight;
  ConstTensorView inv_rms;
  Accumulate accumulate = Accumulate::kOverwrite;  ///< of grad_x
};
void rms_norm_backward(const RmsNormBackwardArgs& args, const ExecContext& ctx);

/// One partial grad_weight [D] in f64 for each thread.
std::int64_t rms_norm_backward_scratch_bytes(std::int64_t width, int num_threads);

}  // namespace ulmus::ops
