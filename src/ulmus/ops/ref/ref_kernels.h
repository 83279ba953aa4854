#pragma once

#include "ulmus/ops/kernels.h"

namespace ulmus::ops::ref {

// One function for each slot of the kernel table, named like the slot. They do what the contract
// in the operation's header says, in plain loops of one thread, with every sum in double. Scratch
// is used by those that also serve the CPU in training, which may not allocate; the others keep
// their intermediate values in vectors.

void fill(const FillArgs& args, TensorView scratch, const ExecContext& ctx);
void copy(const CopyArgs& args, TensorView scratch, const ExecContext& ctx);
void add(const AddArgs& args, TensorView scratch, const ExecContext& ctx);
/// Threaded: every element stands alone.
void initialize_truncated_normal(const InitializeArgs& args, TensorView scratch,
                                 const ExecContext& ctx);
void matmul(const MatmulArgs& args, TensorView scratch, const ExecContext& ctx);
void embedding_forward(const EmbeddingForwardArgs& args, TensorView scratch,
                       const ExecContext& ctx);
void embedding_backward(const EmbeddingBackwardArgs& args, TensorView scratch,
                        const ExecContext& ctx);
void rms_norm_forward(const RmsNormForwardArgs& args, TensorView scratch, const ExecContext& ctx);
void rms_norm_backward(const RmsNormBackwardArgs& args, TensorView scratch, const ExecContext& ctx);
void rope(const RopeArgs& args, TensorView scratch, const ExecContext& ctx);
void attention_forward(const AttentionForwardArgs& args, TensorView scratch,
                       const ExecContext& ctx);
void attention_backward(const AttentionBackwardArgs& args, TensorView scratch,
                        const ExecContext& ctx);
void swiglu_forward(const SwigluForwardArgs& args, TensorView scratch, const ExecContext& ctx);
void swiglu_backward(const SwigluBackwardArgs& args, TensorView scratch, const ExecContext& ctx);
void head_loss(const HeadLossArgs& args, TensorView scratch, const ExecContext& ctx);

void router_select(const RouterSelectArgs& args, TensorView scratch, const ExecContext& ctx);
/// kRandom is Floyd's choice of K among E: exactly K draws, whatever K and E are. Draw k of token t
/// is word k % 4 of philox(key, {t, step low, step high, k / 4}).
void forced_routes(const ForcedRoutesArgs& args, TensorView scratch, const ExecContext& ctx);
void router_weights(const RouterWeightsArgs& args, TensorView scratch, const ExecContext& ctx);
void router_statistics(const RouterStatisticsArgs& args, TensorView scratch,
                       const ExecContext& ctx);
void router_backward(const RouterBackwardArgs& args, TensorView scratch, const ExecContext& ctx);
void balance_coefficients(const BalanceCoefficientsArgs& args, TensorView scratch,
                          const ExecContext& ctx);
/// Uses the first [E] counts of its scratch.
void route_order(const RouteOrderArgs& args, TensorView scratch, const ExecContext& ctx);
void gather_rows(const GatherRowsArgs& args, TensorView scratch, const ExecContext& ctx);
void combine_rows(const CombineRowsArgs& args, TensorView scratch, const ExecContext& ctx);
void gather_scalars(const GatherScalarsArgs& args, TensorView scratch, const ExecContext& ctx);
void collect_scalars(const CollectScalarsArgs& args, TensorView scratch, const ExecContext& ctx);
void move_segments(const MoveSegmentsArgs& args, TensorView scratch, const ExecContext& ctx);
void grouped_matmul(const GroupedMatmulArgs& args, TensorView scratch, const ExecContext& ctx);

void block_norms(const BlockNormsArgs& args, TensorView scratch, const ExecContext& ctx);
void norm_total(const NormTotalArgs& args, TensorView scratch, const ExecContext& ctx);
void step_gate(const StepGateArgs& args, TensorView scratch, const ExecContext& ctx);
void adamw(const AdamwArgs& args, TensorView scratch, const ExecContext& ctx);
void router_bias(const RouterBiasArgs& args, TensorView scratch, const ExecContext& ctx);
void keep_counts(const KeepCountsArgs& args, TensorView scratch, const ExecContext& ctx);

}  // namespace ulmus::ops::ref
