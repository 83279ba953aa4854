#include "ulmus/ops/cpu/blas.h"
#include "ulmus/ops/cpu/cpu_kernels.h"

namespace ulmus::ops {

void register_cpu_kernels(KernelTable& table) {
  cpu::use_one_blas_thread();
  table.dense.attention_forward.cpu = cpu::attention_forward;
  table.dense.attention_backward.cpu = cpu::attention_backward;
  table.dense.head_loss.cpu = cpu::head_loss;
  table.dense.matmul.cpu = cpu::matmul;
  table.moe.grouped_matmul.cpu = cpu::grouped_matmul;
  table.dense.fill.cpu = cpu::fill;
  table.dense.add.cpu = cpu::add;
  table.dense.initialize_truncated_normal.cpu = cpu::initialize_truncated_normal;
  table.dense.embedding_forward.cpu = cpu::embedding_forward;
  table.dense.embedding_backward.cpu = cpu::embedding_backward;
  table.dense.rms_norm_forward.cpu = cpu::rms_norm_forward;
  table.dense.rms_norm_backward.cpu = cpu::rms_norm_backward;
  table.dense.rope.cpu = cpu::rope;
  table.dense.swiglu_forward.cpu = cpu::swiglu_forward;
  table.dense.swiglu_backward.cpu = cpu::swiglu_backward;
  table.moe.router_select.cpu = cpu::router_select;
  table.moe.router_weights.cpu = cpu::router_weights;
  table.moe.router_statistics.cpu = cpu::router_statistics;
  table.moe.router_backward.cpu = cpu::router_backward;
  table.moe.route_order.cpu = cpu::route_order;
  table.moe.gather_rows.cpu = cpu::gather_rows;
  table.moe.combine_rows.cpu = cpu::combine_rows;
  table.moe.gather_scalars.cpu = cpu::gather_scalars;
  table.moe.collect_scalars.cpu = cpu::collect_scalars;
  table.moe.move_segments.cpu = cpu::move_segments;
  table.optimizer.block_norms.cpu = cpu::block_norms;
  table.optimizer.adamw.cpu = cpu::adamw;
}

}  // namespace ulmus::ops
