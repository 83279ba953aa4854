#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Whether an operation replaces what is in its output or adds to it.
enum class Accumulate : std::uint8_t { kOverwrite, kAdd };

/// x[i] = value
///   x  any shape, float or integer, contiguous: out, overwritten
struct FillArgs {
  TensorView x;
  double value = 0.0;
};
void fill(const FillArgs& args, const ExecContext& ctx);

/// y[i] = x[i]
///   y  out, overwritten; shares no element with x
///   x  in, same shape and dtype as y; both contiguous
struct CopyArgs {
  TensorView y;
  ConstTensorView x;
};
void copy(const CopyArgs& args, const ExecContext& ctx);

/// y[i] = a[i] + b[i]
///   y     out, overwritten; may be the same memory as a or b
///   a, b  in, same shape and float dtype as y; contiguous
struct AddArgs {
  TensorView y;
  ConstTensorView a;
  ConstTensorView b;
};
void add(const AddArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
