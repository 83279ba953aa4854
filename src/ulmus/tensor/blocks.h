#pragma once

#include <cstdint>

namespace ulmus {

/// Elements of one block: the unit in which tensors are hashed, summed and (with several ranks)
/// cut. Blocks are counted from the start of the tensor; in a stacked expert tensor from the start
/// of each expert's slice, the last block of a slice being shorter. They are numbered through the
/// whole tensor (design, section 7).
inline constexpr std::int64_t kBlockElements = 4096;

/// Blocks of one slice.
constexpr std::int64_t blocks_per_slice(std::int64_t slice_elements) {
  return (slice_elements + kBlockElements - 1) / kBlockElements;
}

/// Blocks of a tensor of `numel` elements in slices of `slice_elements` (= numel when unstacked).
/// Error unless the slices divide the tensor. An empty tensor has none.
std::int64_t num_blocks(std::int64_t numel, std::int64_t slice_elements);

/// First element of a block; `numel` for the block after the last.
std::int64_t block_begin(std::int64_t block, std::int64_t numel, std::int64_t slice_elements);

}  // namespace ulmus
