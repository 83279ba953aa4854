#pragma once

#include "ulmus/ops/adamw.h"
#include "ulmus/ops/block_norms.h"
#include "ulmus/ops/kernel_slot.h"
#include "ulmus/ops/norm_total.h"
#include "ulmus/ops/router_bias.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops {

struct OptimizerKernels {
  KernelSlot<BlockNormsArgs> block_norms{"block_norms"};
  KernelSlot<NormTotalArgs> norm_total{"norm_total"};
  KernelSlot<StepGateArgs> step_gate{"step_gate"};
  KernelSlot<AdamwArgs> adamw{"adamw"};
  KernelSlot<RouterBiasArgs> router_bias{"router_bias"};
  KernelSlot<KeepCountsArgs> keep_counts{"keep_counts"};
};

}  // namespace ulmus::ops
