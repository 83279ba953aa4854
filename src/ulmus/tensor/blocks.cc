#include "ulmus/tensor/blocks.h"

#include "ulmus/base/check.h"

namespace ulmus {

std::int64_t num_blocks(std::int64_t numel, std::int64_t slice_elements) {
  ULMUS_CHECK(numel >= 0, "numel ", numel);
  if (numel == 0) return 0;
  ULMUS_CHECK(slice_elements > 0 && numel % slice_elements == 0, numel, " elements in slices of ",
              slice_elements);
  return numel / slice_elements * blocks_per_slice(slice_elements);
}

std::int64_t block_begin(std::int64_t block, std::int64_t numel, std::int64_t slice_elements) {
  const std::int64_t blocks = num_blocks(numel, slice_elements);
  ULMUS_CHECK(0 <= block && block <= blocks, "block ", block, " of ", blocks);
  if (block == blocks) return numel;
  const std::int64_t in_slice = blocks_per_slice(slice_elements);
  return block / in_slice * slice_elements + block % in_slice * kBlockElements;
}

}  // namespace ulmus
