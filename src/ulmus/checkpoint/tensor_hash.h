#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ulmus/tensor/blocks.h"

namespace ulmus::checkpoint {

/// The hash of a tensor (design, section 8):
///
///   hash = sum over blocks b of XXH3-64(little-endian bytes of block b, seed = b)  mod 2^64
///
/// Blocks are those of tensor/blocks.h. The sum may be formed in any order and from any ranges of
/// whole blocks, so every layout forms it from its own ranges and adds the parts.
/// XXH3 guards against damage, not against a forger.
class TensorHash {
 public:
  /// Error unless the slices divide the tensor.
  TensorHash(std::int64_t numel, std::int64_t slice_elements, std::int64_t element_bytes);

  /// Adds blocks [begin, end); `bytes` are exactly their elements. Each block is added once.
  void add_blocks(std::int64_t begin, std::int64_t end, std::span<const std::byte> bytes);

  /// The sum over the blocks added so far.
  std::uint64_t value() const { return value_; }
  /// All blocks of the tensor were added.
  bool is_complete() const { return added_ == blocks_; }

 private:
  std::int64_t numel_;
  std::int64_t slice_elements_;
  std::int64_t element_bytes_;
  std::int64_t blocks_;
  std::int64_t added_ = 0;
  std::uint64_t value_ = 0;
};

/// A range of whole blocks of a tensor, as blocks and as elements.
struct Piece {
  std::int64_t block_begin;
  std::int64_t block_end;
  std::int64_t element_begin;
  std::int64_t element_end;
};

/// body(Piece) over a tensor from its start to its end, each piece of at most `max_elements`
/// (>= kBlockElements) elements.
template <class Body>
void for_pieces(std::int64_t numel, std::int64_t slice_elements, std::int64_t max_elements,
                Body&& body) {
  const std::int64_t blocks = num_blocks(numel, slice_elements);
  const std::int64_t step = max_elements / kBlockElements;
  for (std::int64_t begin = 0; begin < blocks; begin += step) {
    const std::int64_t end = begin + step < blocks ? begin + step : blocks;
    body(Piece{begin, end, block_begin(begin, numel, slice_elements),
               block_begin(end, numel, slice_elements)});
  }
}

}  // namespace ulmus::checkpoint
