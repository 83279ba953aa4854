#include "ulmus/ops/router.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

namespace {

/// logits [N, E], and ids [N, K] with 1 <= K <= E
void check_logits_and_ids(const FrontDoor& door, const ConstTensorView& logits,
                          const ConstTensorView& ids) {
  door.is_float("logits", logits);
  door.rank("logits", logits, 2);
  door.rank("ids", ids, 2);
  door.operand("logits", logits, logits.dtype(), logits.shape());
  door.operand("ids", ids, DType::kI32, {logits.dim(0), ids.dim(1)});
  door.require(0 < ids.dim(1) && ids.dim(1) <= logits.dim(1), "ids ", ids.shape(),
               " choose more experts than logits ", logits.shape(), " have, or none");
}

/// B groups of equal size; none when there are no tokens
void check_groups(const FrontDoor& door, std::string_view name, const ConstTensorView& of_group,
                  const ConstTensorView& logits) {
  door.rank(name, of_group, 2);
  const std::int64_t num_groups = of_group.dim(0);
  const std::int64_t num_tokens = logits.dim(0);
  door.require(num_groups > 0 ? num_tokens % num_groups == 0 : num_tokens == 0, name, " ",
               of_group.shape(), " has ", num_groups,
               " groups, expected a divisor of the rows of logits ", logits.shape());
}

}  // namespace

void router_select(const RouterSelectArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.router_select;
  const FrontDoor door(slot.name, ctx);
  check_logits_and_ids(door, args.logits, args.ids);
  if (!args.bias.is_empty()) {
    door.operand("bias", args.bias, args.logits.dtype(), {args.logits.dim(1)});
  }
  door.operand("valid", args.valid, DType::kU8, {args.logits.dim(0)});
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.ids, args.logits, args.bias, args.valid)},
               0, ctx);
}

void forced_routes(const ForcedRoutesArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.forced_routes;
  const FrontDoor door(slot.name, ctx);
  door.rank("ids", args.ids, 2);
  const std::int64_t num_tokens = args.ids.dim(0);
  door.operand("ids", args.ids, DType::kI32, args.ids.shape());
  door.operand("valid", args.valid, DType::kU8, {num_tokens});
  door.require(0 < args.ids.dim(1) && args.ids.dim(1) <= args.num_experts, "ids ", args.ids.shape(),
               " choose more than the ", args.num_experts, " experts, or none");
  door.require(args.step >= 0, "step is ", args.step);
  // A draw's counter has 32 bits for the token.
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 32U;
  door.require(0 <= args.first_token && args.first_token <= kMaxTokens - num_tokens,
               "first_token is ", args.first_token, " for ", num_tokens,
               " tokens, expected 0 or more and at most ", kMaxTokens, " tokens in a step");
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.ids, args.valid)}, 0, ctx);
}

void router_weights(const RouterWeightsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.router_weights;
  const FrontDoor door(slot.name, ctx);
  check_logits_and_ids(door, args.logits, args.ids);
  door.operand("weights", args.weights, args.logits.dtype(), args.ids.shape());
  door.operand("lse", args.lse, args.logits.dtype(), {args.logits.dim(0)});
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.weights, args.lse, args.logits, args.ids)},
               0, ctx);
}

void router_statistics(const RouterStatisticsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.router_statistics;
  const FrontDoor door(slot.name, ctx);
  check_logits_and_ids(door, args.logits, args.ids);
  check_groups(door, "counts", args.counts, args.logits);
  const std::int64_t num_experts = args.logits.dim(1);
  const Shape group_shape = {args.counts.dim(0), num_experts};
  door.operand("counts", args.counts, DType::kI64, group_shape);
  door.operand("score_sums", args.score_sums, DType::kF64, group_shape);
  door.operand("counts_total", args.counts_total, DType::kI64, {num_experts});
  door.operand("score_total", args.score_total, DType::kF64, {num_experts});
  door.operand("z_sum", args.z_sum, DType::kF64, {1});
  door.operand("lse", args.lse, args.logits.dtype(), {args.logits.dim(0)});
  const double moved = bytes_of(args.counts, args.score_sums, args.logits, args.lse, args.ids) +
                       2.0 * bytes_of(args.counts_total, args.score_total, args.z_sum);
  book_and_run(slot, args, {.moved_bytes = moved},
               router_statistics_scratch_bytes(args, ctx.device.scratch_threads()), ctx);
}

std::int64_t router_statistics_scratch_bytes(const RouterStatisticsArgs& args, int num_threads) {
  const std::int64_t num_experts = args.logits.dim(1);
  return num_threads * (in_cache_lines((num_experts + 1) * size_of(DType::kF64)) +
                        in_cache_lines(num_experts * size_of(DType::kI64)));
}

void router_backward(const RouterBackwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.router_backward;
  const FrontDoor door(slot.name, ctx);
  check_logits_and_ids(door, args.logits, args.ids);
  check_groups(door, "balance", args.balance, args.logits);
  const DType dtype = args.logits.dtype();
  door.operand("grad_logits", args.grad_logits, dtype, args.logits.shape());
  door.operand("grad_weights", args.grad_weights, dtype, args.ids.shape());
  door.operand("balance", args.balance, dtype, {args.balance.dim(0), args.logits.dim(1)});
  door.operand("lse", args.lse, dtype, {args.logits.dim(0)});
  const double moved =
      bytes_of(args.grad_logits, args.grad_weights, args.balance, args.logits, args.lse, args.ids);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
