#include "ulmus/ops/step_gate.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void step_gate(const StepGateArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.step_gate;
  const FrontDoor door(slot.name, ctx);
  door.operand("gate", args.gate, DType::kF64, {kNumGateFields});
  door.operand("windows", args.windows, DType::kF64, {2 * kSkipWindow + 1});
  door.operand("loss", args.loss, DType::kF64, {1});
  door.operand("norm_sq", args.norm_sq, DType::kF64, {1});
  door.operand("first_bad", args.first_bad, DType::kF64, {1});
  door.require(args.clip >= 0.0, "clip is ", args.clip, ", expected 0 (no clipping) or more");
  door.require(args.skip_sigma >= 0.0, "skip_sigma is ", args.skip_sigma,
               ", expected 0 (no skip-step) or more");
  door.require(0.0 <= args.beta1 && args.beta1 < 1.0 && 0.0 <= args.beta2 && args.beta2 < 1.0,
               "beta1 ", args.beta1, ", beta2 ", args.beta2, ", expected 0 to below 1");
  const double moved =
      2.0 * bytes_of(args.gate, args.windows) + bytes_of(args.loss, args.norm_sq, args.first_bad);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
