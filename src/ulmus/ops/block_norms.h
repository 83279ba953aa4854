#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Elements of one block: the unit in which tensors are hashed, summed and (with several ranks)
/// cut. Blocks are counted from the start of the tensor; in a stacked expert tensor from the start
/// of each expert's slice, the last block of a slice being shorter (design, section 7).
inline constexpr std::int64_t kBlockElements = 4096;

/// Blocks of a tensor of `numel` elements in slices of `slice_elements` (= numel when unstacked).
std::int64_t num_blocks(std::int64_t numel, std::int64_t slice_elements);

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
