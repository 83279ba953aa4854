#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// y[n, :] = scale * weight[ids[n], :]
///   y       [N, D]  out, overwritten
///   weight  [V, D]  in
///   ids     [N]     i32 in, each 0 <= id < V (verified by the data room before step 0)
struct EmbeddingForwardArgs {
  TensorView y;
  ConstTensorView weight;
  ConstTensorView ids;
  double scale = 1.0;
};
void embedding_forward(const EmbeddingForwardArgs& args, const ExecContext& ctx);

/// grad_weight[v, :] += scale * sum over n with ids[n] = v, in ascending n, of grad_y[n, :]
///   grad_weight  [V, D]  out, added to
///   grad_y       [N, D]  in
///   ids          [N]     i32 in
struct EmbeddingBackwardArgs {
  TensorView grad_weight;
  ConstTensorView grad_y;
  ConstTensorView ids;
  double scale = 1.0;
};
void embedding_backward(const EmbeddingBackwardArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
