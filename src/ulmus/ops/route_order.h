#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Rows of the expert-major buffer, by a counting sort of the routes in O(N K + E): expert e owns
/// rows [expert_begin[e], expert_begin[e + 1]), inside which routes stand in (token, k) order.
/// Route (n, k) has the number n K + k. Routes with id -1 have no row.
///
///   expert_begin  [E + 1]  i32 out, overwritten; expert_begin[E] = rows in use
///   row_of_route  [N, K]   i32 out, overwritten; -1 for a route without a row
///   route_of_row  [N * K]  i32 out; rows in use overwritten, others left alone
///   ids           [N, K]   i32 in, -1 or 0 <= id < E
struct RouteOrderArgs {
  TensorView expert_begin;
  TensorView row_of_route;
  TensorView route_of_row;
  ConstTensorView ids;
};
void route_order(const RouteOrderArgs& args, const ExecContext& ctx);
/// A count for each thread and expert.
std::int64_t route_order_scratch_bytes(int num_experts, int num_threads);

}  // namespace ulmus::ops
