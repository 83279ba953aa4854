#pragma once

#include "ulmus/base/philox.h"
#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// How logits become scores s, in at least FP32.
enum class RouterGate : std::uint8_t { kSoftmax, kSigmoid };

/// How the K selected scores become the weights of the sum over experts.
///   kRaw       w_k = s_k                     (OLMoE, Qwen2-MoE)
///   kSumToOne  w_k = s_k / sum_j s_j         (Mixtral, Qwen3-MoE, DeepSeek-V3)
///   kSumToK    w_k = K s_k / sum_j s_j       (Olmo-core 3)
enum class RouteWeights : std::uint8_t { kRaw, kSumToOne, kSumToK };

struct RouterRule {
  RouterGate gate = RouterGate::kSoftmax;
  RouteWeights weights = RouteWeights::kRaw;
  double scale = 1.0;  ///< multiplies every weight
};

/// ids[n, :] = the K experts with the largest score + bias, largest first; equal ones in ascending
/// expert index. Without a bias logits are compared (same order). NaN ranks below everything, so
/// that ids are distinct whatever comes in; the step gate sees the NaN.
///   ids     [N, K]  i32 out, overwritten; -1 in rows with valid[n] = 0
///   logits  [N, E]  in; K <= E
///   bias    [E]     in; empty view: none
///   valid   [N]     u8 in; 0 marks padding, which is routed nowhere
struct RouterSelectArgs {
  TensorView ids;
  ConstTensorView logits;
  ConstTensorView bias;
  ConstTensorView valid;
  RouterGate gate = RouterGate::kSoftmax;
};
void router_select(const RouterSelectArgs& args, const ExecContext& ctx);

/// Routes that do not look at the logits, for benchmarks and load tests.
///   kRandom   K distinct experts, uniform, from (key, step, first_token + n)
///   kUniform  expert ((first_token + n) K + k) mod E: every expert equally often
enum class ForcedRouting : std::uint8_t { kRandom, kUniform };
///   ids    [N, K]  i32 out, overwritten; -1 where valid[n] = 0; K <= E
///   valid  [N]     u8 in
struct ForcedRoutesArgs {
  TensorView ids;
  ConstTensorView valid;
  ForcedRouting routing = ForcedRouting::kRandom;
  int num_experts = 1;
  PhiloxKey key{};  ///< of (seed, random routing, layer)
  std::int64_t step = 0;
  std::int64_t first_token = 0;  ///< index of token 0 in the step's global order
};
void forced_routes(const ForcedRoutesArgs& args, const ExecContext& ctx);

/// Weights of given routes. The bias plays no part.
///   weights  [N, K]  out, overwritten; 0 where the id is -1
///   lse      [N]     out, overwritten: log sum_e exp(logits[n, e]), for z-loss and backward
///   logits   [N, E]  in
///   ids      [N, K]  i32 in
struct RouterWeightsArgs {
  TensorView weights;
  TensorView lse;
  ConstTensorView logits;
  ConstTensorView ids;
  RouterRule rule;
};
void router_weights(const RouterWeightsArgs& args, const ExecContext& ctx);

/// Counts and sums that the auxiliary losses and the telemetry need. The N tokens are B groups of
/// N / B consecutive ones (sequences, or one group for a whole micro-batch); B = 0 only when N = 0.
/// The normalised score is softmax(logits), or sigmoid(logits) divided by its sum over experts.
/// Padding is left out.
///
///   counts[b, e]      = routes of group b to expert e (requested)
///   score_sums[b, e]  = sum over valid tokens of group b of the normalised score
///   counts_total[e]  += sum_b counts;  score_total[e] += sum_b score_sums
///   z_sum[0]         += sum over valid tokens of lse^2
///
///   counts        [B, E]  i64 out, overwritten
///   score_sums    [B, E]  f64 out, overwritten
///   counts_total  [E]     i64 out, added to
///   score_total   [E]     f64 out, added to
///   z_sum         [1]     f64 out, added to
///   logits [N, E], lse [N], ids [N, K] i32: in
struct RouterStatisticsArgs {
  TensorView counts;
  TensorView score_sums;
  TensorView counts_total;
  TensorView score_total;
  TensorView z_sum;
  ConstTensorView logits;
  ConstTensorView lse;
  ConstTensorView ids;
  RouterGate gate = RouterGate::kSoftmax;
};
void router_statistics(const RouterStatisticsArgs& args, const ExecContext& ctx);
/// f64 partials [E] + 1 and counts [E] for each thread.
std::int64_t router_statistics_scratch_bytes(const RouterStatisticsArgs& args, int num_threads);

/// Gradient of everything that hangs on the logits, ids held fixed:
///
///   grad_logits = d/dlogits ( sum_k <grad_weights[n, k], weights[n, k]>
///                             + sum_e balance[b(n), e] * normalised score[n, e]
///                             + z_coefficient * lse[n]^2 )
///
///   grad_logits   [N, E]  out, overwritten; 0 for padding
///   grad_weights  [N, K]  in
///   balance       [B, E]  in, from balance_coefficients; B divides N, or both are 0
///   logits [N, E], lse [N], ids [N, K] i32: in
struct RouterBackwardArgs {
  TensorView grad_logits;
  ConstTensorView grad_weights;
  ConstTensorView balance;
  ConstTensorView logits;
  ConstTensorView lse;
  ConstTensorView ids;
  RouterRule rule;
  double z_coefficient = 0.0;  ///< z-loss weight / routed tokens of the step
};
void router_backward(const RouterBackwardArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
