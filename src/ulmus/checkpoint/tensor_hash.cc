#include "ulmus/checkpoint/tensor_hash.h"

#include <xxhash.h>

#include <bit>

#include "ulmus/base/check.h"

namespace ulmus::checkpoint {

static_assert(std::endian::native == std::endian::little,
              "tensor files hold the bytes of memory, which must be little-endian");

TensorHash::TensorHash(const BlockRange& blocks, std::int64_t element_bytes)
    : blocks_(blocks), element_bytes_(element_bytes) {
  const std::int64_t all = num_blocks(blocks.numel, blocks.slice_elements);
  ULMUS_CHECK(0 <= blocks.begin && blocks.begin <= blocks.end && blocks.end <= all, "blocks ",
              blocks.begin, " to ", blocks.end, " of ", all);
}

void TensorHash::add_blocks(std::int64_t begin, std::int64_t end,
                            std::span<const std::byte> bytes) {
  ULMUS_CHECK(blocks_.begin <= begin && begin <= end && end <= blocks_.end, "blocks ", begin,
              " to ", end, ", expected a part of ", blocks_.begin, " to ", blocks_.end);
  const std::int64_t first = block_begin(begin, blocks_.numel, blocks_.slice_elements);
  const std::int64_t last = block_begin(end, blocks_.numel, blocks_.slice_elements);
  ULMUS_CHECK(static_cast<std::int64_t>(bytes.size()) == (last - first) * element_bytes_, "blocks ",
              begin, " to ", end, " are ", last - first, " elements of ", element_bytes_,
              " bytes, given ", bytes.size(), " bytes");
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t from = block_begin(block, blocks_.numel, blocks_.slice_elements);
    const std::int64_t to = block_begin(block + 1, blocks_.numel, blocks_.slice_elements);
    value_ += XXH3_64bits_withSeed(bytes.data() + (from - first) * element_bytes_,
                                   static_cast<std::size_t>((to - from) * element_bytes_),
                                   static_cast<std::uint64_t>(block));
  }
  added_ += end - begin;
}

}  // namespace ulmus::checkpoint
