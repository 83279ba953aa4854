#include "ulmus/ops/route_order.h"

#include <algorithm>

#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops::ref {

void route_order(const RouteOrderArgs& args, TensorView scratch, const ExecContext& /*ctx*/) {
  const auto* ids = args.ids.data<std::int32_t>();
  const auto num_routes = static_cast<std::int32_t>(args.ids.numel());
  auto* expert_begin = args.expert_begin.data<std::int32_t>();
  auto* row_of_route = args.row_of_route.data<std::int32_t>();
  auto* route_of_row = args.route_of_row.data<std::int32_t>();
  const std::int64_t num_experts = args.expert_begin.dim(0) - 1;
  auto* next_row = scratch.rows(0, num_experts * size_of(DType::kI32))
                       .reinterpret(DType::kI32, {num_experts})
                       .data<std::int32_t>();

  std::fill_n(next_row, num_experts, 0);
  for (std::int32_t route = 0; route < num_routes; ++route) {
    ULMUS_DCHECK(-1 <= ids[route] && ids[route] < num_experts, "id ", ids[route], " of ",
                 num_experts);
    if (ids[route] >= 0) ++next_row[ids[route]];
  }
  expert_begin[0] = 0;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    expert_begin[e + 1] = expert_begin[e] + next_row[e];
    next_row[e] = expert_begin[e];
  }
  for (std::int32_t route = 0; route < num_routes; ++route) {
    const std::int32_t row = ids[route] < 0 ? -1 : next_row[ids[route]]++;
    row_of_route[route] = row;
    if (row >= 0) route_of_row[row] = route;
  }
}

}  // namespace ulmus::ops::ref
