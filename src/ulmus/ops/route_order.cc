#include "ulmus/ops/route_order.h"

#include <limits>

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void route_order(const RouteOrderArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.route_order;
  const FrontDoor door(slot.name, ctx);
  door.rank("ids", args.ids, 2);
  door.rank("expert_begin", args.expert_begin, 1);
  const std::int64_t num_routes = args.ids.numel();
  const std::int64_t num_experts = args.expert_begin.dim(0) - 1;
  constexpr std::int64_t kMaxRoutes = std::numeric_limits<std::int32_t>::max();
  door.require(num_routes <= kMaxRoutes, "ids ", args.ids.shape(), " are ", num_routes,
               " routes, expected at most ", kMaxRoutes);
  door.require(0 < num_experts && num_experts <= kMaxRoutes, "expert_begin is ",
               args.expert_begin.shape(),
               ", expected one more than the experts, of which there "
               "is at least one");
  door.operand("ids", args.ids, DType::kI32, args.ids.shape());
  door.operand("expert_begin", args.expert_begin, DType::kI32, {num_experts + 1});
  door.operand("row_of_route", args.row_of_route, DType::kI32, args.ids.shape());
  door.operand("route_of_row", args.route_of_row, DType::kI32, {num_routes});
  const double moved = bytes_of(args.expert_begin, args.row_of_route, args.route_of_row, args.ids);
  book_and_run(
      slot, args, {.moved_bytes = moved},
      route_order_scratch_bytes(static_cast<int>(num_experts), ctx.device.scratch_threads()), ctx);
}

std::int64_t route_order_scratch_bytes(int num_experts, int num_threads) {
  return num_threads * in_cache_lines(num_experts * size_of(DType::kI32));
}

}  // namespace ulmus::ops
