#pragma once

#include <cstdint>

#include "ulmus/device/arena.h"
#include "ulmus/device/exec_context.h"

namespace ulmus::nn {

/// Where every route of one layer call goes. Made by the forward pass, kept until the backward of
/// the same call is done. Counts and offsets live on the device; the host knows the capacity.
///
/// "Here" is this rank: `expert_begin` speaks of the experts that live here, E_here of them, and
/// the grouped buffer holds the rows that other ranks and this one send them. Route tables speak of
/// the tokens that live here and of their rows where the exchange sends them from.
struct ExchangePlan {
  TensorView expert_begin;        ///< [E_here + 1] i32: rows of each expert in the grouped buffer
  TensorView row_of_route;        ///< [N, K]  i32: row of a route, -1 without one
  TensorView route_of_row;        ///< [N * K] i32
  std::int64_t row_capacity = 0;  ///< R: rows of the grouped buffer
  std::int64_t booked_rows = 0;   ///< rows in use as the host knows them, for the meter
  int call = -1;                  ///< which of the exchange's own records belongs to this plan

  /// [1] i32 on the device: rows in use.
  ConstTensorView row_count() const {
    return expert_begin.rows(expert_begin.dim(0) - 1, expert_begin.dim(0));
  }
};

/// Moves token rows to their experts and back. dispatch and the unweighted combine are transposes
/// of each other, so that one plan serves all four moves of a training step.
class TokenExchange {
 public:
  virtual ~TokenExchange() = default;

  /// Rows of the grouped buffer for up to `num_tokens` tokens on each rank.
  virtual std::int64_t row_capacity(std::int64_t num_tokens, int num_experts, int top_k) const = 0;
  /// Memory of a plan for up to `num_tokens` tokens.
  virtual ExchangePlan allocate_plan(Arena& arena, std::int64_t num_tokens, int num_experts,
                                     int top_k) = 0;
  /// Fills the plan. Enqueues, never waits for the host.
  ///   expert_ids  [N, K]  i32 in, -1 for padding
  virtual void plan(ExchangePlan& plan, ConstTensorView expert_ids, std::int64_t valid_tokens,
                    const ExecContext& ctx) = 0;
  /// grouped [R, D] rows in use overwritten; rows [N, D] in.
  virtual void dispatch(TensorView grouped, ConstTensorView rows, const ExchangePlan& plan,
                        const ExecContext& ctx) = 0;
  /// rows [N, D] overwritten with sum_k weights[n, k] * grouped row, k ascending; an empty weights
  /// view means 1.
  virtual void combine(TensorView rows, ConstTensorView grouped, ConstTensorView weights,
                       const ExchangePlan& plan, const ExecContext& ctx) = 0;
  /// One number for each route: of_row [R], the rows in use overwritten; of_route [N, K] in.
  virtual void dispatch_scalars(TensorView of_row, ConstTensorView of_route,
                                const ExchangePlan& plan, const ExecContext& ctx) = 0;
  /// The way back: of_route [N, K] overwritten, 0 for routes without a row; of_row [R] in.
  virtual void collect_scalars(TensorView of_route, ConstTensorView of_row,
                               const ExchangePlan& plan, const ExecContext& ctx) = 0;
};

}  // namespace ulmus::nn
