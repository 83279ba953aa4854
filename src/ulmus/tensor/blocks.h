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

/// Whole blocks [begin, end) of a tensor: what one rank owns of it, for instance.
struct BlockRange {
  std::int64_t numel = 0;           ///< of the whole tensor
  std::int64_t slice_elements = 0;  ///< of the whole tensor
  std::int64_t begin = 0;
  std::int64_t end = 0;

  static BlockRange all(std::int64_t numel, std::int64_t slice_elements) {
    return {numel, slice_elements, 0, ulmus::num_blocks(numel, slice_elements)};
  }
  std::int64_t num_blocks() const { return end - begin; }
  std::int64_t element_begin() const { return block_begin(begin, numel, slice_elements); }
  std::int64_t element_end() const { return block_begin(end, numel, slice_elements); }
  std::int64_t num_elements() const { return element_end() - element_begin(); }
};

}  // namespace ulmus
