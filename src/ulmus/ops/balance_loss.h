#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Where the routed fractions f of the load-balancing loss E sum_e f_e P_e come from (design,
/// section 5): the group's own counts (a sequence, a micro-batch), or the previous optimizer step.
enum class BalanceCounts : std::uint8_t { kOfGroup, kOfPreviousStep };

/// What each normalised score of a group is multiplied by in the load-balancing loss. T_b =
/// sum_e counts[b, e] / K valid tokens of the group; step_tokens = routed tokens of the whole
/// optimizer step.
///
///   kOfGroup:         unit[b, e] = E / (K T_b step_tokens) * counts[b, e], 0 when T_b = 0
///   kOfPreviousStep:  unit[b, e] = E / step_tokens * previous[e] / sum(previous);
///                     1 / E for the fraction while sum(previous) = 0 (before the first step)
///   coefficients[b, e] = weight * unit[b, e]
///   loss_sum[0]       += sum over b, e of unit[b, e] * score_sums[b, e]
/// Summed over all groups of a step the loss is 1 at uniform routing.
///
///   coefficients  [B, E]  out, overwritten
///   loss_sum      [1]     f64 out, added to
///   counts        [B, E]  i64 in
///   score_sums    [B, E]  f64 in
///   previous      [E]     i64 in; read for kOfPreviousStep only
struct BalanceCoefficientsArgs {
  TensorView coefficients;
  TensorView loss_sum;
  ConstTensorView counts;
  ConstTensorView score_sums;
  ConstTensorView previous;
  BalanceCounts source = BalanceCounts::kOfGroup;
  double step_tokens = 1.0;
  double weight = 0.0;
};
void balance_coefficients(const BalanceCoefficientsArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
