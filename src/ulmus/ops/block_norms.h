#pragma once

#include "ulmus/device/exec_context.h"
#include "ulmus/tensor/blocks.h"

namespace ulmus::ops {

/// The unit of the sums, and how many a tensor has (tensor/blocks.h).
using ulmus::kBlockElements;
using ulmus::num_blocks;

/// sums[i] = sum over block blocks.begin + i of x[j]^2, in f64, in a fixed order within the block.
///   sums  [blocks.num_blocks()]  f64 out, overwritten
///   x     [blocks.num_elements()], any shape, float, contiguous: in; the elements of those blocks
struct BlockNormsArgs {
  TensorView sums;
  ConstTensorView x;
  BlockRange blocks;
};
void block_norms(const BlockNormsArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
