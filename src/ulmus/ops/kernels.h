#pragma once

#include <string_view>

#include "ulmus/base/check.h"
#include "ulmus/device/exec_context.h"
#include "ulmus/ops/dense_kernels.h"
#include "ulmus/ops/moe_kernels.h"
#include "ulmus/ops/optimizer_kernels.h"

namespace ulmus::ops {

/// The kernels of every operation, a column for each back end.
struct KernelTable {
  DenseKernels dense;
  MoeKernels moe;
  OptimizerKernels optimizer;
};

/// Each back end fills its column; the CPU's slots start with the oracle's kernels, so that an
/// operation works before it is fast.
void register_ref_kernels(KernelTable& table);
void register_cpu_kernels(KernelTable& table);

const KernelTable& kernels();

/// The common tail of a front door: takes the scratch, stops on a meta device, else runs the
/// kernel of the context's back end and books its time.
template <class Args>
void run_kernel(const KernelSlot<Args>& slot, const Args& args, std::int64_t scratch_bytes,
                const ExecContext& ctx) {
  ScratchScope scope(ctx.workspace);
  const TensorView scratch =
      scratch_bytes > 0 ? scope.take(DType::kU8, {scratch_bytes}) : TensorView();
  if (ctx.is_meta()) return;
  const Kernel<Args> kernel = slot.kernel_for(ctx.backend());
  const auto begin = TraceEvent::Clock::now();
  kernel(args, scratch, ctx);
  ctx.meter.add_time(slot.name, begin, TraceEvent::Clock::now());
}

}  // namespace ulmus::ops
