#pragma once

#include "ulmus/device/exec_context.h"
#include "ulmus/ops/elementwise.h"
#include "ulmus/ops/matmul.h"

namespace ulmus::ops {

/// One matrix product for each expert over its rows [expert_begin[e], expert_begin[e + 1]); rows
/// outside are neither read nor written, and an expert without rows costs nothing.
///
///   kNT  out[r, :]     = rows[r, :] weight[e]^T    out [R, n], rows [R, k], weight [E, n, k]
///   kNN  out[r, :]     = rows[r, :] weight[e]      out [R, n], rows [R, k], weight [E, k, n]
///   kTN  out[e, :, :] += sum_r left[r, :]^T rows[r, :]
///                                                  out [E, m, n], left [R, m], rows [R, n]
/// kNT and kNN overwrite, kTN (the weight gradient) adds.
///
///   expert_begin  [E + 1]  i32 in, on the device, ascending from 0
/// All contiguous, one float dtype.
struct GroupedMatmulArgs {
  TensorView out;
  ConstTensorView rows;
  ConstTensorView weight;  ///< kNT, kNN
  ConstTensorView left;    ///< kTN
  ConstTensorView expert_begin;
  MatmulForm form = MatmulForm::kNT;
  std::int64_t booked_rows = 0;  ///< rows in use as the host knows them, for the meter
};
void grouped_matmul(const GroupedMatmulArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
