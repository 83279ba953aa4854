#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ulmus/comm/operations.h"
#include "ulmus/nn/moe/token_exchange.h"

namespace ulmus::parallel {

/// The established way: counts go to the host, rows into the order of their destination, one block
/// to each peer, and from source-major into expert-major order there.
///
///   dispatch  gather rows by route -> all-to-all -> move segments to expert-major
///   combine   move segments back -> all-to-all back -> weighted sum of each token's rows
///
/// Expert e lives on member e / (E / W) of the group. Rows of an expert stand in the order (source,
/// token, k). Dropless: the grouped buffer has room for the worst routing, W * N * min(K, E / W)
/// rows. The one exchange that reads counts on the host (design, law 4): it is the baseline.
class AllToAllExchange final : public nn::TokenExchange {
 public:
  /// The operations that it enqueues, by their names in the meter.
  static constexpr std::string_view kTransfer = "all_to_all";
  static constexpr std::array<std::string_view, 7> kOperations = {
      "route_order",     "gather_rows",   "combine_rows", "gather_scalars",
      "collect_scalars", "move_segments", kTransfer};

  /// `group` is the expert group; it and `device` outlive this.
  AllToAllExchange(comm::Communicator& group, Device& device);

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

 private:
  /// What the host and the device know of one plan beyond what every exchange has.
  struct Call {
    TensorView route_begin;              ///< [E + 1] i32: routes of each expert, in sending order
    TensorView to_experts;               ///< [W * E / W, 3] i64: segments, source- to expert-major
    TensorView to_sources;               ///< the same, backwards
    std::vector<std::int64_t> sent;      ///< [W + 1] bounds of rows for each peer, sending order
    std::vector<std::int64_t> received;  ///< [W + 1] bounds of rows of each peer, source-major
    std::int64_t sent_rows() const { return sent.back(); }
    std::int64_t received_rows() const { return received.back(); }
  };
  Call& call_of(const nn::ExchangePlan& plan) {
    return calls_[static_cast<std::size_t>(plan.call)];
  }
  const Call& call_of(const nn::ExchangePlan& plan) const {
    return calls_[static_cast<std::size_t>(plan.call)];
  }
  void exchange_counts(const Call& call, const ExecContext& ctx);
  void place_rows(Call& call, const nn::ExchangePlan& plan);
  void transfer(TensorView out, const std::vector<std::int64_t>& out_begin, ConstTensorView in,
                const std::vector<std::int64_t>& in_begin, const ExecContext& ctx);

  comm::Communicator& group_;
  Device& device_;
  std::vector<Call> calls_;
  // Host tables, reused by every call.
  std::vector<std::int32_t> route_begin_;      ///< [E + 1]
  std::vector<std::int32_t> sent_counts_;      ///< [W, E / W]
  std::vector<std::int32_t> received_counts_;  ///< [W, E / W]
  std::vector<std::int32_t> expert_begin_;     ///< [E / W + 1]
  std::vector<std::int64_t> to_experts_;
  std::vector<std::int64_t> to_sources_;
  std::vector<std::int64_t> count_bounds_;  ///< [W + 1]: 0, 1, ..., W rows of counts
  comm::AllToAll all_to_all_;  ///< behind the counts, which it may be sending when this goes
};

}  // namespace ulmus::parallel
