#pragma once

#include "ulmus/base/philox.h"
#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// x[i] = std * z(key, first_element + i), z the stream's normal variates cut to |z| <= bound
/// (philox_truncated_normal), computed in f64 and rounded once to x's dtype.
///   x  [any]  out, overwritten; contiguous. A value does not depend on where x was cut.
struct InitializeArgs {
  TensorView x;
  PhiloxKey key;
  double std = 1.0;
  double bound = 3.0;
  std::int64_t first_element = 0;  ///< global index of x[0]
};
void initialize_truncated_normal(const InitializeArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
