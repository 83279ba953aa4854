#pragma once

#include "ulmus/ops/kernels.h"

namespace ulmus::ops::ref {

// One function for each slot of the kernel table, named like the slot:
//   void rms_norm_forward(const RmsNormForwardArgs& args, TensorView scratch, const ExecContext& ctx);

}  // namespace ulmus::ops::ref
