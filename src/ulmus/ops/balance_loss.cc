#include "ulmus/ops/balance_loss.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void balance_coefficients(const BalanceCoefficientsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.balance_coefficients;
  const FrontDoor door(slot.name, ctx);
  door.is_float("coefficients", args.coefficients);
  door.rank("coefficients", args.coefficients, 2);
  const Shape shape = args.coefficients.shape();
  const std::int64_t num_experts = shape.dim(1);
  door.operand("coefficients", args.coefficients, args.coefficients.dtype(), shape);
  door.operand("loss_sum", args.loss_sum, DType::kF64, {1});
  door.operand("counts", args.counts, DType::kI64, shape);
  door.operand("score_sums", args.score_sums, DType::kF64, shape);
  if (args.source == BalanceCounts::kOfPreviousStep) {
    door.operand("previous", args.previous, DType::kI64, {num_experts});
  }
  door.require(args.step_tokens > 0.0, "step_tokens is ", args.step_tokens,
               ", expected more than 0");
  const double moved = bytes_of(args.coefficients, args.counts, args.score_sums, args.previous) +
                       2.0 * bytes_of(args.loss_sum);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
