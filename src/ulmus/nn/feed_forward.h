#pragma once

#include <string>

#include "ulmus/device/exec_context.h"
#include "ulmus/nn/parameter.h"

namespace ulmus::nn {

/// Dense gated feed-forward: y = (silu(x W_gate^T) * (x W_up^T)) W_down^T. Also the shared expert.
class FeedForward {
 public:
  struct Config {
    std::int64_t width = 0;   ///< D
    std::int64_t hidden = 0;  ///< F
    double init_std = 0.02;
  };
  struct Params {
    Weight gate_up;  ///< [2F, D]: F gate rows, then F up rows
    Weight down;     ///< [D, F]
  };
  struct Saved {
    ConstTensorView x;   ///< [N, D]: set by forward, kept by the caller
    TensorView gate_up;  ///< [max N, 2F]
  };
  /// Operands of the weight half, beside Saved: valid from backward_input to backward_weight.
  struct Pending {
    ConstTensorView grad_y;   ///< [N, D]: kept by the caller
    TensorView grad_gate_up;  ///< [max N, 2F]
    TensorView hidden;        ///< [max N, F]
  };

  FeedForward() = default;
  FeedForward(const Config& config, ParameterSet& parameters, const std::string& name);

  Saved allocate(Arena& arena, const std::string& name, std::int64_t max_tokens) const;
  Pending allocate_pending(Arena& arena, const std::string& name, std::int64_t max_tokens) const;

  /// y [N, D] overwritten.
  void forward(TensorView y, ConstTensorView x, Saved& saved, const ExecContext& ctx) const;
  /// grad_x [N, D] overwritten.
  void backward_input(TensorView grad_x, ConstTensorView grad_y, const Saved& saved,
                      Pending& pending, const ExecContext& ctx) const;
  void backward_weight(const Saved& saved, const Pending& pending, const ExecContext& ctx) const;

 private:
  Config config_;
  Params params_;
};

}  // namespace ulmus::nn
