#pragma once

#include <array>
#include <string_view>

#include "ulmus/nn/moe/token_exchange.h"

namespace ulmus::parallel {

/// The exchange of one process: all experts are here, so rows go straight into the expert-major
/// buffer. There is a row for every route, so nothing can overflow.
class LocalExchange final : public nn::TokenExchange {
 public:
  /// The operations that it enqueues, by their names in the meter.
  static constexpr std::array<std::string_view, 5> kOperations = {
      "route_order", "gather_rows", "combine_rows", "gather_scalars", "collect_scalars"};

  std::int64_t row_capacity(std::int64_t num_tokens, int num_experts, int top_k) const override;
  nn::ExchangePlan allocate_plan(Arena& arena, std::int64_t num_tokens, int num_experts,
                                 int top_k) override;
  void plan(nn::ExchangePlan& plan, ConstTensorView expert_ids, std::int64_t valid_tokens,
            const ExecContext& ctx) override;
  void dispatch(TensorView grouped, ConstTensorView rows, const nn::ExchangePlan& plan,
                const ExecContext& ctx) override;
  void combine(TensorView rows, ConstTensorView grouped, ConstTensorView weights,
               const nn::ExchangePlan& plan, const ExecContext& ctx) override;
  void dispatch_scalars(TensorView of_row, ConstTensorView of_route, const nn::ExchangePlan& plan,
                        const ExecContext& ctx) override;
  void collect_scalars(TensorView of_route, ConstTensorView of_row, const nn::ExchangePlan& plan,
                       const ExecContext& ctx) override;
};

}  // namespace ulmus::parallel
