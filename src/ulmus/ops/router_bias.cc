#include "ulmus/ops/router_bias.h"

#include "ulmus/ops/front_door.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops {

void router_bias(const RouterBiasArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.router_bias;
  const FrontDoor door(slot.name, ctx);
  door.is_float("bias", args.bias);
  door.rank("bias", args.bias, 1);
  door.operand("bias", args.bias, args.bias.dtype(), args.bias.shape());
  door.operand("counts", args.counts, DType::kI64, args.bias.shape());
  door.operand("gate", args.gate, DType::kF64, {kNumGateFields});
  door.require(args.rate >= 0.0, "rate is ", args.rate, ", expected at least 0");
  book_and_run(slot, args,
               {.moved_bytes = 2.0 * bytes_of(args.bias) + bytes_of(args.counts, args.gate)}, 0,
               ctx);
}

void keep_counts(const KeepCountsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.keep_counts;
  const FrontDoor door(slot.name, ctx);
  door.operand("previous", args.previous, DType::kI64, args.previous.shape());
  door.operand("counts", args.counts, DType::kI64, args.previous.shape());
  door.operand("gate", args.gate, DType::kF64, {kNumGateFields});
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.previous, args.counts, args.gate)}, 0,
               ctx);
}

}  // namespace ulmus::ops
