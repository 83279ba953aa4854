#pragma once

#include <string>

#include "ulmus/nn/feed_forward.h"
#include "ulmus/nn/moe/experts.h"
#include "ulmus/nn/moe/router.h"
#include "ulmus/nn/moe/token_exchange.h"

namespace ulmus::nn {

/// The [moe] table of a configuration.
struct MoeConfig {
  int experts = 0;
  int top_k = 0;
  std::int64_t expert_hidden = 0;
  std::int64_t shared_hidden = 0;  ///< width of the shared expert; 0: none
  ops::RouterRule rule;            ///< gate, weights, scale
  Routing routing = Routing::kLearned;
  BalanceScope balance_scope = BalanceScope::kSequence;
  double balance_loss = 0.01;  ///< weight of the balance loss of each layer
  double z_loss = 0.001;       ///< weight of the router z-loss of each layer
  double bias_update = 0.0;    ///< rate of the loss-free balancing; 0: no bias
};

/// Mixture-of-experts feed-forward: router, exchange, experts, weighted sum over K, plus the shared
/// expert. y[n] = sum_k w[n, k] expert_{id[n, k]}(x[n]) + shared(x[n]).
class Moe {
 public:
  struct Config {
    std::int64_t width = 0;
    MoeConfig moe;
    double init_std = 0.02;
    std::uint64_t seed = 0;
    RouteTape* tape = nullptr;
  };
  struct Saved {
    Router::Saved router;
    ExchangePlan plan;
    Experts::Saved experts;
    FeedForward::Saved shared;
  };
  struct Pending {
    Router::Pending router;
    Experts::Pending experts;
    FeedForward::Pending shared;
  };

  Moe() = default;
  /// `exchange` outlives the layer.
  Moe(const Config& config, TokenExchange& exchange, ParameterSet& parameters, Arena& buffers_arena,
      const std::string& name);

  Saved allocate(Arena& arena, const std::string& name, std::int64_t max_sequences,
                 std::int64_t sequence_length) const;
  Pending allocate_pending(Arena& arena, const std::string& name, std::int64_t max_tokens) const;

  /// y [N, D] overwritten; the record added to.
  void forward(TensorView y, ConstTensorView x, const Batch& batch, const StepScale& scale,
               Saved& saved, const RouterRecord& record, const ExecContext& ctx) const;
  /// grad_x [N, D] overwritten.
  void backward_input(TensorView grad_x, ConstTensorView grad_y, const Batch& batch,
                      const StepScale& scale, const Saved& saved, Pending& pending,
                      const ExecContext& ctx) const;
  void backward_weight(const Saved& saved, const Pending& pending, const ExecContext& ctx) const;

  const Router& router() const { return router_; }

 private:
  bool has_shared() const { return config_.moe.shared_hidden > 0; }

  Config config_;
  TokenExchange* exchange_ = nullptr;
  Router router_;
  Experts experts_;
  FeedForward shared_;
};

}  // namespace ulmus::nn
