#include "ulmus/ops/step_gate.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void step_gate(const StepGateArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().optimizer.step_gate;
  const FrontDoor door(slot.name, ctx);
  door.operand("gate", args.gate, DType::kF64, {kNumGateFields});
  door.operand("windows", args.windows, DType::kF64, {2 * kSkipWindow + 1});
  door.operand("loss", args.loss, DType::kF64, {1});
  door.rank("norm_sums", args.norm_sums, 1);
  door.operand("norm_sums", args.norm_sums, DType::kF64, args.norm_sums.shape());
  door.rank("tensor_begin", args.tensor_begin, 1);
  door.operand("tensor_begin", args.tensor_begin, DType::kI64, args.tensor_begin.shape());
  door.require(args.tensor_begin.dim(0) > 0, "tensor_begin is ", args.tensor_begin.shape(),
               ", expected one more than the tensors");
  door.require(args.clip >= 0.0, "clip is ", args.clip, ", expected 0 (no clipping) or more");
  door.require(args.skip_sigma >= 0.0, "skip_sigma is ", args.skip_sigma,
               ", expected 0 (no skip-step) or more");
  door.require(0.0 <= args.beta1 && args.beta1 < 1.0 && 0.0 <= args.beta2 && args.beta2 < 1.0,
               "beta1 ", args.beta1, ", beta2 ", args.beta2, ", expected 0 to below 1");
  const double moved = 2.0 * bytes_of(args.gate, args.windows) +
                       bytes_of(args.loss, args.norm_sums, args.tensor_begin);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
