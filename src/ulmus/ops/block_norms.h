#pragma once

#include "ulmus/device/exec_context.h"
#include "ulmus/tensor/blocks.h"

namespace ulmus::ops {

/// The unit of the sums, and how many a tensor has (tensor/blocks.h).
using ulmus::kBlockElements;
using ulmus::num_blocks;

/// sums[b] = sum over block b of x[i]^2, in f64, in a fixed order within the block.
///   sums  [num_blocks(x)]  f64 out, overwritten
///   x     float, contiguous: in
struct BlockNormsArgs {
  TensorView sums;
  ConstTensorView x;
  std::int64_t slice_elements = 0;
};
void block_norms(const BlockNormsArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
