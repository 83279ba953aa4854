#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Balancing bias of a router (Wang et al. 2024), once after each optimizer step:
///   bias[e] += rate * sign(mean(counts) - counts[e]), compared in integers (E counts[e] against
///   sum(counts)), sign(0) = 0. Nothing happens when the gate's kUpdate is 0.
///   bias    [E]  in and out
///   counts  [E]  i64 in: requested routes of the whole step
///   gate    [kNumGateFields]  f64 in
struct RouterBiasArgs {
  TensorView bias;
  ConstTensorView counts;
  ConstTensorView gate;
  double rate = 0.0;
};
void router_bias(const RouterBiasArgs& args, const ExecContext& ctx);

/// previous[e] = counts[e] unless the gate's kUpdate is 0: the counts that the `step` scope of the
/// balance loss sees in the next step.
///   previous  [n]  i64 out
///   counts    [n]  i64 in
///   gate      [kNumGateFields]  f64 in
struct KeepCountsArgs {
  TensorView previous;
  ConstTensorView counts;
  ConstTensorView gate;
};
void keep_counts(const KeepCountsArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
