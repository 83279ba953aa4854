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
  /// The part of the hash that `blocks` give. Error unless the slices divide the tensor.
  TensorHash(const BlockRange& blocks, std::int64_t element_bytes);

  /// Adds blocks [begin, end) of the tensor; `bytes` are exactly their elements. Each is added
  /// once.
  void add_blocks(std::int64_t begin, std::int64_t end, std::span<const std::byte> bytes);

  /// The sum over the blocks added so far.
  std::uint64_t value() const { return value_; }
  /// All blocks were added.
  bool is_complete() const { return added_ == blocks_.num_blocks(); }

 private:
  BlockRange blocks_;
  std::int64_t element_bytes_;
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

/// body(Piece) over some blocks of a tensor in order, each piece of at most `max_elements`
/// (>= kBlockElements) elements.
template <class Body>
void for_pieces(const BlockRange& blocks, std::int64_t max_elements, Body&& body) {
  const std::int64_t step = max_elements / kBlockElements;
  for (std::int64_t begin = blocks.begin; begin < blocks.end; begin += step) {
    const std::int64_t end = begin + step < blocks.end ? begin + step : blocks.end;
    body(Piece{begin, end, block_begin(begin, blocks.numel, blocks.slice_elements),
               block_begin(end, blocks.numel, blocks.slice_elements)});
  }
}

}  // namespace ulmus::checkpoint
