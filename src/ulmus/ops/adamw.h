#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// AdamW (Loshchilov and Hutter 2019), decay decoupled and scaled by the learning rate as in
/// PyTorch. Does nothing when the gate's kUpdate is 0. With g = clip * grad:
///
///   m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
///   param = param * (1 - lr weight_decay)
///           - lr * (m / correction1) / (sqrt(v / correction2) + eps)
///
/// One code path for every element, no contraction, so that a value does not depend on where a
/// range was cut (design, law 2).
///
///   param, m, v  [n]  in and out, contiguous
///   grad         [n]  in
///   gate         [kNumGateFields]  f64 in, from step_gate
struct AdamwArgs {
  TensorView param;
  TensorView m;
  TensorView v;
  ConstTensorView grad;
  ConstTensorView gate;
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;
};
void adamw(const AdamwArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
