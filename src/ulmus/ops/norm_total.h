#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// What one rank adds to the global gradient norm, from the block sums of all its tensors. Over
/// several ranks norm_sq is summed and first_bad is minimised before step_gate reads them.
///
///   norm_sq[0]   = sum of norm_sums in ascending order
///   first_bad[0] = index of the first tensor with a sum that is not finite, +infinity if none
///
///   norm_sq, first_bad  [1]      f64 out, overwritten
///   norm_sums           [B]      f64 in: block_norms of all tensors, one after the other
///   tensor_begin        [T + 1]  i64 in: first block of each tensor; tensors may have none
struct NormTotalArgs {
  TensorView norm_sq;
  TensorView first_bad;
  ConstTensorView norm_sums;
  ConstTensorView tensor_begin;
};
void norm_total(const NormTotalArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
