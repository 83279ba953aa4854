#include "ulmus/ops/block_norms.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void block_norms(const BlockNormsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.block_norms;
  const FrontDoor door(slot.name, ctx);
  door.is_float("x", args.x);
  door.operand("x", args.x, args.x.dtype(), args.x.shape());
  door.operand("sums", args.sums, DType::kF64, {num_blocks(args.x.numel(), args.slice_elements)});
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.sums, args.x)}, 0, ctx);
}

}  // namespace ulmus::ops
