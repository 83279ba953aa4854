#include "ulmus/parallel/local_exchange.h"

#include "ulmus/ops/route_order.h"
#include "ulmus/ops/route_rows.h"

namespace ulmus::parallel {

std::int64_t LocalExchange::row_capacity(std::int64_t num_tokens, int /*num_experts*/,
                                         int top_k) const {
  return num_tokens * top_k;
}

nn::ExchangePlan LocalExchange::allocate_plan(Arena& arena, std::int64_t num_tokens,
                                              int num_experts, int top_k) {
  return {.expert_begin = arena.allocate("plan.expert_begin", DType::kI32, {num_experts + 1}),
          .row_of_route = arena.allocate("plan.row_of_route", DType::kI32, {num_tokens, top_k}),
          .route_of_row = arena.allocate("plan.route_of_row", DType::kI32, {num_tokens * top_k}),
          .row_capacity = row_capacity(num_tokens, num_experts, top_k)};
}

void LocalExchange::plan(nn::ExchangePlan& plan, ConstTensorView expert_ids,
                         std::int64_t valid_tokens, const ExecContext& ctx) {
  const std::int64_t n = expert_ids.dim(0);
  const std::int64_t top_k = expert_ids.dim(1);
  plan.booked_rows = valid_tokens * top_k;
  ops::route_order({.expert_begin = plan.expert_begin,
                    .row_of_route = plan.row_of_route.rows(0, n),
                    .route_of_row = plan.route_of_row.rows(0, n * top_k),
                    .ids = expert_ids},
                   ctx);
}

void LocalExchange::dispatch(TensorView grouped, ConstTensorView rows, const nn::ExchangePlan& plan,
                             const ExecContext& ctx) {
  ops::gather_rows({.grouped = grouped,
                    .rows = rows,
                    .route_of_row = plan.route_of_row,
                    .row_count = plan.row_count(),
                    .top_k = static_cast<int>(plan.row_of_route.dim(1)),
                    .booked_rows = plan.booked_rows},
                   ctx);
}

void LocalExchange::combine(TensorView rows, ConstTensorView grouped, ConstTensorView weights,
                            const nn::ExchangePlan& plan, const ExecContext& ctx) {
  ops::combine_rows({.out = rows,
                     .grouped = grouped,
                     .weights = weights,
                     .row_of_route = plan.row_of_route.rows(0, rows.dim(0)),
                     .booked_rows = plan.booked_rows},
                    ctx);
}

void LocalExchange::dispatch_scalars(TensorView of_row, ConstTensorView of_route,
                                     const nn::ExchangePlan& plan, const ExecContext& ctx) {
  ops::gather_scalars({.of_row = of_row,
                       .of_route = of_route,
                       .route_of_row = plan.route_of_row,
                       .row_count = plan.row_count()},
                      ctx);
}

void LocalExchange::collect_scalars(TensorView of_route, ConstTensorView of_row,
                                    const nn::ExchangePlan& plan, const ExecContext& ctx) {
  ops::collect_scalars({.of_route = of_route,
                        .of_row = of_row,
                        .row_of_route = plan.row_of_route.rows(0, of_route.dim(0))},
                       ctx);
}

}  // namespace ulmus::parallel
