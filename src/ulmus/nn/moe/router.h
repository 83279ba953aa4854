#pragma once

#include <string>
#include <string_view>

#include "ulmus/device/exec_context.h"
#include "ulmus/nn/batch.h"
#include "ulmus/nn/parameter.h"
#include "ulmus/ops/balance_loss.h"
#include "ulmus/ops/router.h"

namespace ulmus::nn {

/// Which routes a layer takes: those of the logits, or forced ones for benchmarks and load tests.
enum class Routing : std::uint8_t { kLearned, kRandom, kUniform };

/// Where the fractions of the balance loss are counted (design, section 5).
enum class BalanceScope : std::uint8_t { kSequence, kMicroBatch, kStep };

class Router;

/// Sees the routes of every forward pass, and may put others in their place: how parity lets two
/// layouts take the same routes where scores are nearly equal.
class RouteTape {
 public:
  virtual ~RouteTape() = default;
  /// ids [N, K] i32 as `router` selected them from logits [N, E], of the micro-batch that begins at
  /// token scale.first_token of step scale.step.
  virtual void on_routes(const Router& router, const StepScale& scale, TensorView ids,
                         ConstTensorView logits, const ExecContext& ctx) = 0;
};

/// What one layer adds to the step's record; all on the device, all added to.
struct RouterRecord {
  TensorView counts;       ///< [E] i64: requested routes of the step
  TensorView score_sums;   ///< [E] f64: normalised scores summed over tokens
  TensorView z_sum;        ///< [1] f64: sum of lse^2 over tokens
  TensorView balance_sum;  ///< [1] f64: this layer's balance loss, unweighted
};

/// Router of a mixture-of-experts layer: logits, selection, weights and auxiliary losses.
class Router {
 public:
  struct Config {
    std::int64_t width = 0;  ///< D
    int num_experts = 0;     ///< E
    int top_k = 0;           ///< K
    ops::RouterRule rule;
    Routing routing = Routing::kLearned;
    BalanceScope balance_scope = BalanceScope::kSequence;
    double balance_weight = 0.0;
    double z_weight = 0.0;
    bool has_bias = false;  ///< selection bias of the loss-free balancing
    double init_std = 0.02;
    std::uint64_t seed = 0;  ///< of random routing
    RouteTape* tape = nullptr;
  };
  struct Params {
    Weight weight;  ///< [E, D]
  };
  /// State beside the parameters; not trained by gradients, but part of a checkpoint.
  struct Buffers {
    TensorView bias;             ///< [E] in the model's dtype; empty without has_bias
    TensorView previous_counts;  ///< [E] i64: requested routes of the previous optimizer step
  };
  struct Saved {
    ConstTensorView x;   ///< [N, D]: set by forward, kept by the caller
    TensorView logits;   ///< [max N, E]
    TensorView lse;      ///< [max N]
    TensorView ids;      ///< [max N, K] i32
    TensorView weights;  ///< [max N, K]
    TensorView balance;  ///< [max B, E] coefficients of the balance loss
  };
  struct Pending {
    TensorView grad_logits;  ///< [max N, E]
  };

  Router() = default;
  /// `buffers_arena` holds the bias and the previous counts.
  Router(const Config& config, ParameterSet& parameters, Arena& buffers_arena,
         const std::string& name);

  Saved allocate(Arena& arena, const std::string& name, std::int64_t max_sequences,
                 std::int64_t sequence_length) const;
  Pending allocate_pending(Arena& arena, const std::string& name, std::int64_t max_tokens) const;

  /// Fills saved.{logits, lse, ids, weights, balance} and adds to the record.
  void forward(ConstTensorView x, const Batch& batch, const StepScale& scale, Saved& saved,
               const RouterRecord& record, const ExecContext& ctx) const;
  /// grad_x [N, D] added to; grad_weights [N, K] in.
  void backward_input(TensorView grad_x, ConstTensorView grad_weights, const Batch& batch,
                      const StepScale& scale, const Saved& saved, Pending& pending,
                      const ExecContext& ctx) const;
  void backward_weight(const Saved& saved, const Pending& pending, const ExecContext& ctx) const;

  const std::string& name() const { return name_; }
  const Config& config() const { return config_; }
  const Buffers& buffers() const { return buffers_; }

 private:
  void select(const Batch& batch, const StepScale& scale, const Saved& saved,
              const ExecContext& ctx) const;
  void balance(const Batch& batch, const StepScale& scale, const Saved& saved,
               const RouterRecord& record, const ExecContext& ctx) const;

  std::string name_;
  Config config_;
  Params params_;
  Buffers buffers_;
  PhiloxKey routing_key_{};
};

}  // namespace ulmus::nn
