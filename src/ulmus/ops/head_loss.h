#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Output projection, softmax cross-entropy and their gradients in one pass over chunks of rows:
/// never more than [chunk_rows, V] logits exist.
///
///   z[n, :]        = x[n, :] W^T;   lse[n] = log sum_v exp(z[n, v])
///   loss_sums[0]  += scale * sum over n with targets[n] >= 0 of (lse[n] - z[n, targets[n]])
///   loss_sums[1]  += scale * sum over the same n of lse[n]^2
///   dz[n, v]       = scale * ((1 + 2 z_coefficient lse[n]) softmax(z[n])[v] - [v = targets[n]]),
///                    0 for rows without a target
///   grad_x         = dz W;   grad_weight += dz^T x
/// The objective is loss_sums[0] + z_coefficient * loss_sums[1].
///
///   loss_sums    [2]     f64 out, added to; rows in ascending order
///   grad_x       [N, D]  out, overwritten
///   grad_weight  [V, D]  out, added to; both empty views (evaluation): no gradients are formed
///   x            [N, D]  in
///   weight       [V, D]  in
///   targets      [N]     i32 in, -1 (bears no loss) or 0 <= target < V
struct HeadLossArgs {
  TensorView loss_sums;
  TensorView grad_x;
  TensorView grad_weight;
  ConstTensorView x;
  ConstTensorView weight;
  ConstTensorView targets;
  double scale = 1.0;  ///< 1 / valid loss tokens of the whole step (design, law 1)
  double z_coefficient = 0.0;
  std::int64_t chunk_rows = 256;
};
void head_loss(const HeadLossArgs& args, const ExecContext& ctx);

/// Logits of one chunk and two f64 sums a row.
std::int64_t head_loss_scratch_bytes(const HeadLossArgs& args);

}  // namespace ulmus::ops
