#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Gated linear unit with SiLU (Shazeer 2020). A row of x is [gate | up], F channels each.
///
///   h[r, f] = silu(x[r, f]) * x[r, F + f],   silu(z) = z / (1 + exp(-z))
///
///   h          [R, F]   out; rows below the row count overwritten, others left alone
///   x          [R, 2F]  in
///   row_count  [1]      i32 in, on the device; empty view: all R rows
struct SwigluForwardArgs {
  TensorView h;
  ConstTensorView x;
  ConstTensorView row_count;
  std::int64_t booked_rows = 0;  ///< rows that count, as the host knows them, for the meter
};
void swiglu_forward(const SwigluForwardArgs& args, const ExecContext& ctx);

/// Gradients, with an optional weight w[r] that multiplied the row's later output (the router
/// weight of an expert row; 1 when not given). grad_h is the gradient of the *unweighted* output.
///
///   h[r]                recomputed
///   grad_row_weight[r]  = <h[r], grad_h[r]>
///   weighted_h[r]       = w[r] * h[r]                   (operand of the down weight gradient)
///   grad_x[r]           = w[r] * d<h[r], grad_h[r]> / dx[r]
/// Nothing is divided by a weight, so w = 0 is harmless.
///
///   grad_x           [R, 2F]  out, overwritten below the row count; may be the same memory as x
///   weighted_h       [R, F]   out, overwritten likewise; may be the same memory as grad_h
///   grad_row_weight  [R]      out, overwritten likewise; empty view: not wanted
///   grad_h           [R, F]   in
///   x                [R, 2F]  in
///   row_weight       [R]      in; empty view: all 1
///   row_count        [1]      i32 in; empty view: all R rows
struct SwigluBackwardArgs {
  TensorView grad_x;
  TensorView weighted_h;
  TensorView grad_row_weight;
  ConstTensorView grad_h;
  ConstTensorView x;
  ConstTensorView row_weight;
  ConstTensorView row_count;
  std::int64_t booked_rows = 0;
};
void swiglu_backward(const SwigluBackwardArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
