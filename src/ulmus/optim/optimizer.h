#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulmus/device/arena.h"
#include "ulmus/device/exec_context.h"

namespace ulmus::optim {

/// One tensor to be optimised, with the treatment of its group.
struct OptimizedTensor {
  std::string name;
  TensorView param;
  TensorView grad;
  std::int64_t slice_elements = 0;  ///< of one expert's slice; numel when unstacked
  double lr_scale = 1.0;
  double weight_decay = 0.0;
};

/// AdamW's state of one tensor.
struct Moments {
  std::string name;  ///< of the tensor
  TensorView first;
  TensorView second;
  std::int64_t slice_elements = 0;
};

/// Small state that a checkpoint keeps beside the moments.
struct OptimizerState {
  std::vector<double> gate;     ///< [kNumGateFields]
  std::vector<double> windows;  ///< [2 * kSkipWindow + 1]
};

/// AdamW over all parameters, with global-norm clipping, skip-step and the non-finite law, decided
/// on the device by the step gate (ops/step_gate.h). No host read, no allocation in a step.
class Optimizer {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double clip = 1.0;        ///< 0: none
    double skip_sigma = 0.0;  ///< 0: none
  };

  /// `gate` [kNumGateFields] f64 is part of what the host reads once a step; moments, windows and
  /// norm partials come from `arena`. All memory is taken here. Error naming the tensor when
  /// gradient and parameter differ in shape or type, slices do not divide it, or a name comes
  /// twice; Error naming the option when it is out of its range.
  Optimizer(std::vector<OptimizedTensor> tensors, const Options& options, TensorView gate,
            Arena& arena, Device& device);

  void zero_gradients(const ExecContext& ctx) const;
  /// Norms, gate, update: what happened stands in the gate (GateField), kBadTensor being an index
  /// into tensors().
  ///   loss  [1]  f64: cross-entropy of the step. Gradients are complete.
  void step(ConstTensorView loss, double lr, const ExecContext& ctx) const;

  const std::vector<OptimizedTensor>& tensors() const { return tensors_; }
  const std::vector<Moments>& moments() const { return moments_; }
  OptimizerState export_state(Device& device) const;
  /// InputError when a count in it is none, or a number is not finite; nothing is changed then.
  void import_state(const OptimizerState& state, Device& device) const;

 private:
  std::vector<OptimizedTensor> tensors_;
  Options options_;
  TensorView gate_;
  std::vector<Moments> moments_;
  TensorView windows_;
  TensorView norm_sums_;
  TensorView tensor_begin_;
  std::vector<std::int64_t> block_begin_;  // the host's copy of tensor_begin_
};

}  // namespace ulmus::optim
