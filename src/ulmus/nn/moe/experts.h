#pragma once

#include <string>

#include "ulmus/device/exec_context.h"
#include "ulmus/nn/moe/token_exchange.h"
#include "ulmus/nn/parameter.h"

namespace ulmus::nn {

/// E gated feed-forward experts over rows sorted by expert. Only rows in use are computed.
class Experts {
 public:
  struct Config {
    std::int64_t width = 0;   ///< D
    std::int64_t hidden = 0;  ///< F
    int num_experts = 0;      ///< E
    double init_std = 0.02;
  };
  struct Params {
    Weight gate_up;  ///< [E, 2F, D]: F gate rows, then F up rows
    Weight down;     ///< [E, D, F]
  };
  struct Saved {
    TensorView rows;     ///< [R, D]: filled by the exchange's dispatch
    TensorView gate_up;  ///< [R, 2F]
  };
  struct Pending {
    TensorView grad_out;      ///< [R, D]: unweighted gradient rows, filled by the exchange
    TensorView grad_gate_up;  ///< [R, 2F]
    TensorView hidden;        ///< [R, F], times the router weight
  };

  Experts() = default;
  Experts(const Config& config, ParameterSet& parameters, const std::string& name);

  Saved allocate(Arena& arena, const std::string& name, std::int64_t row_capacity) const;
  Pending allocate_pending(Arena& arena, const std::string& name, std::int64_t row_capacity) const;

  /// out [R, D] rows in use overwritten, from saved.rows.
  void forward(TensorView out, const Saved& saved, const ExchangePlan& plan,
               const ExecContext& ctx) const;
  /// From pending.grad_out: grad_rows [R, D] and grad_row_weight [R] rows in use overwritten.
  ///   row_weight  [R]  in: router weights in row order
  void backward_input(TensorView grad_rows, TensorView grad_row_weight, ConstTensorView row_weight,
                      const Saved& saved, Pending& pending, const ExchangePlan& plan,
                      const ExecContext& ctx) const;
  void backward_weight(const Saved& saved, const Pending& pending, const ExchangePlan& plan,
                       const ExecContext& ctx) const;

 private:
  Config config_;
  Params params_;
};

}  // namespace ulmus::nn
