#include "ulmus/ops/block_norms.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void block_norms(const BlockNormsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.block_norms;
  const FrontDoor door(slot.name, ctx);
  door.is_float("x", args.x);
  door.operand("x", args.x, args.x.dtype(), args.x.shape());
  const BlockRange& blocks = args.blocks;
  const std::int64_t all = num_blocks(blocks.numel, blocks.slice_elements);
  door.require(0 <= blocks.begin && blocks.begin <= blocks.end && blocks.end <= all, "blocks are [",
               blocks.begin, ", ", blocks.end, "), expected a part of [0, ", all, ")");
  door.require(args.x.numel() == blocks.num_elements(), "x has ", args.x.numel(),
               " elements, expected the ", blocks.num_elements(), " of its blocks");
  door.operand("sums", args.sums, DType::kF64, {blocks.num_blocks()});
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.sums, args.x)}, 0, ctx);
}

}  // namespace ulmus::ops
