#pragma once

#include "ulmus/device/exec_context.h"
#include "ulmus/ops/elementwise.h"

namespace ulmus::ops {

/// Which operands are transposed (row-major matrices):
///   kNT  out[m, n] = sum_k a[m, k] b[n, k]   forward of a linear layer, y = x W^T
///   kNN  out[m, n] = sum_k a[m, k] b[k, n]   its input gradient, grad_x = grad_y W
///   kTN  out[m, n] = sum_k a[k, m] b[k, n]   its weight gradient, grad_W = grad_y^T x
enum class MatmulForm : std::uint8_t { kNT, kNN, kTN };

/// Dense matrix product.
///   out   [m, n]  out, overwritten or added to; rows may have gaps
///   a, b  two axes each, as the form says; same float dtype; rows may have gaps
/// out aliases neither a nor b. A product over k = 0 terms is 0.
struct MatmulArgs {
  TensorView out;
  ConstTensorView a;
  ConstTensorView b;
  MatmulForm form = MatmulForm::kNT;
  Accumulate accumulate = Accumulate::kOverwrite;
};
void matmul(const MatmulArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
