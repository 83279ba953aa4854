#include "ulmus/ops/norm_total.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void norm_total(const NormTotalArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.norm_total;
  const FrontDoor door(slot.name, ctx);
  door.operand("norm_sq", args.norm_sq, DType::kF64, {1});
  door.operand("first_bad", args.first_bad, DType::kF64, {1});
  door.rank("norm_sums", args.norm_sums, 1);
  door.operand("norm_sums", args.norm_sums, DType::kF64, args.norm_sums.shape());
  door.rank("tensor_begin", args.tensor_begin, 1);
  door.operand("tensor_begin", args.tensor_begin, DType::kI64, args.tensor_begin.shape());
  door.require(args.tensor_begin.dim(0) > 0, "tensor_begin is ", args.tensor_begin.shape(),
               ", expected one more than the tensors");
  const double moved = bytes_of(args.norm_sq, args.first_bad, args.norm_sums, args.tensor_begin);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
