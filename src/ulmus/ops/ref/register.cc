#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops {

namespace {

/// The oracle's column, and the CPU's until it has a faster kernel.
template <class Args>
void set(KernelSlot<Args>& slot, Kernel<Args> kernel) {
  slot.ref = kernel;
  slot.cpu = kernel;
}

void register_dense(DenseKernels& dense) {
  set(dense.fill, ref::fill);
  set(dense.copy, ref::copy);
  set(dense.add, ref::add);
  set(dense.initialize_truncated_normal, ref::initialize_truncated_normal);
  set(dense.matmul, ref::matmul);
  set(dense.embedding_forward, ref::embedding_forward);
  set(dense.embedding_backward, ref::embedding_backward);
  set(dense.rms_norm_forward, ref::rms_norm_forward);
  set(dense.rms_norm_backward, ref::rms_norm_backward);
  set(dense.rope, ref::rope);
  set(dense.attention_forward, ref::attention_forward);
  set(dense.attention_backward, ref::attention_backward);
  set(dense.swiglu_forward, ref::swiglu_forward);
  set(dense.swiglu_backward, ref::swiglu_backward);
  set(dense.head_loss, ref::head_loss);
}

void register_moe(MoeKernels& moe) {
  set(moe.router_select, ref::router_select);
  set(moe.forced_routes, ref::forced_routes);
  set(moe.router_weights, ref::router_weights);
  set(moe.router_statistics, ref::router_statistics);
  set(moe.router_backward, ref::router_backward);
  set(moe.balance_coefficients, ref::balance_coefficients);
  set(moe.route_order, ref::route_order);
  set(moe.gather_rows, ref::gather_rows);
  set(moe.combine_rows, ref::combine_rows);
  set(moe.gather_scalars, ref::gather_scalars);
  set(moe.collect_scalars, ref::collect_scalars);
  set(moe.move_segments, ref::move_segments);
  set(moe.grouped_matmul, ref::grouped_matmul);
}

}  // namespace

void register_ref_kernels(KernelTable& table) {
  register_dense(table.dense);
  register_moe(table.moe);
  set(table.optimizer.block_norms, ref::block_norms);
  set(table.optimizer.norm_total, ref::norm_total);
  set(table.optimizer.step_gate, ref::step_gate);
  set(table.optimizer.adamw, ref::adamw);
  set(table.optimizer.router_bias, ref::router_bias);
  set(table.optimizer.keep_counts, ref::keep_counts);
}

}  // namespace ulmus::ops
