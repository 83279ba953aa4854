#include "ulmus/ops/rms_norm.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void rms_norm_forward(const RmsNormForwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.rms_norm_forward;
  const FrontDoor door(slot.name, ctx);
  door.is_float("x", args.x);
  door.rank("x", args.x, 2);
  const DType dtype = args.x.dtype();
  door.operand("x", args.x, dtype, args.x.shape());
  door.operand("y", args.y, dtype, args.x.shape());
  door.operand("inv_rms", args.inv_rms, dtype, {args.x.dim(0)});
  door.operand("weight", args.weight, dtype, {args.x.dim(1)});
  door.require(args.eps >= 0.0, "eps is ", args.eps, ", expected at least 0");
  door.same_or_apart("y", args.y, "x", args.x);
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.y, args.inv_rms, args.x, args.weight)}, 0,
               ctx);
}

void rms_norm_backward(const RmsNormBackwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.rms_norm_backward;
  const FrontDoor door(slot.name, ctx);
  door.is_float("x", args.x);
  door.rank("x", args.x, 2);
  const DType dtype = args.x.dtype();
  const std::int64_t width = args.x.dim(1);
  door.operand("x", args.x, dtype, args.x.shape());
  door.operand("grad_x", args.grad_x, dtype, args.x.shape());
  door.operand("grad_weight", args.grad_weight, dtype, {width});
  door.operand("grad_y", args.grad_y, dtype, args.x.shape());
  door.operand("weight", args.weight, dtype, {width});
  door.operand("inv_rms", args.inv_rms, dtype, {args.x.dim(0)});
  const bool adds = args.accumulate == Accumulate::kAdd;
  if (adds) {
    door.apart("grad_x (added to)", args.grad_x, "grad_y", args.grad_y);
  } else {
    door.same_or_apart("grad_x", args.grad_x, "grad_y", args.grad_y);
  }
  door.apart("grad_x", args.grad_x, "x", args.x);
  const double moved = (adds ? 2.0 : 1.0) * bytes_of(args.grad_x) +
                       2.0 * bytes_of(args.grad_weight) +
                       bytes_of(args.grad_y, args.x, args.weight, args.inv_rms);
  book_and_run(slot, args, {.moved_bytes = moved},
               rms_norm_backward_scratch_bytes(width, ctx.device.scratch_threads()), ctx);
}

std::int64_t rms_norm_backward_scratch_bytes(std::int64_t width, int num_threads) {
  return num_threads * in_cache_lines(width * size_of(DType::kF64));
}

}  // namespace ulmus::ops
