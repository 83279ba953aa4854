#include "ulmus/ops/adamw.h"

#include "ulmus/ops/front_door.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops {

void adamw(const AdamwArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.adamw;
  const FrontDoor door(slot.name, ctx);
  door.is_float("param", args.param);
  const DType dtype = args.param.dtype();
  const Shape shape = args.param.shape();
  door.operand("param", args.param, dtype, shape);
  door.operand("m", args.m, dtype, shape);
  door.operand("v", args.v, dtype, shape);
  door.operand("grad", args.grad, dtype, shape);
  door.operand("gate", args.gate, DType::kF64, {kNumGateFields});
  door.require(0.0 <= args.beta1 && args.beta1 < 1.0 && 0.0 <= args.beta2 && args.beta2 < 1.0,
               "beta1 ", args.beta1, ", beta2 ", args.beta2, ", expected 0 to below 1");
  door.require(args.eps >= 0.0, "eps is ", args.eps, ", expected at least 0");
  const double moved = 2.0 * bytes_of(args.param, args.m, args.v) + bytes_of(args.grad, args.gate);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
