#include "ulmus/checkpoint/tensor_hash.h"

#include <xxhash.h>

#include <bit>

#include "ulmus/base/check.h"

namespace ulmus::checkpoint {

static_assert(std::endian::native == std::endian::little,
              "tensor files hold the bytes of memory, which must be little-endian");

TensorHash::TensorHash(std::int64_t numel, std::int64_t slice_elements, std::int64_t element_bytes)
    : numel_(numel),
      slice_elements_(slice_elements),
      element_bytes_(element_bytes),
      blocks_(num_blocks(numel, slice_elements)) {}

void TensorHash::add_blocks(std::int64_t begin, std::int64_t end,
                            std::span<const std::byte> bytes) {
  ULMUS_CHECK(begin <= end, "blocks ", begin, " to ", end);
  const std::int64_t first = block_begin(begin, numel_, slice_elements_);
  const std::int64_t last = block_begin(end, numel_, slice_elements_);
  ULMUS_CHECK(static_cast<std::int64_t>(bytes.size()) == (last - first) * element_bytes_, "blocks ",
              begin, " to ", end, " are ", last - first, " elements of ", element_bytes_,
              " bytes, given ", bytes.size(), " bytes");
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t from = block_begin(block, numel_, slice_elements_);
    const std::int64_t to = block_begin(block + 1, numel_, slice_elements_);
    value_ += XXH3_64bits_withSeed(bytes.data() + (from - first) * element_bytes_,
                                   static_cast<std::size_t>((to - from) * element_bytes_),
                                   static_cast<std::uint64_t>(block));
  }
  added_ += end - begin;
}

}  // namespace ulmus::checkpoint
