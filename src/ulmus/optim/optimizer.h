#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulmus/device/arena.h"
#include "ulmus/device/exec_context.h"
#include "ulmus/tensor/blocks.h"

namespace ulmus::optim {

/// The part of one tensor that this rank optimises, with the treatment of its group.
struct OptimizedTensor {
  std::string name;
  BlockRange blocks;  ///< of the whole tensor; may be none
  TensorView param;   ///< their elements, any shape
  TensorView grad;    ///< the same shape
  double lr_scale = 1.0;
  double weight_decay = 0.0;
};

/// AdamW's state of the same part.
struct Moments {
  std::string name;  ///< of the tensor
  BlockRange blocks;
  TensorView first;
  TensorView second;
};

/// Where the optimizer and the step's record meet, all f64 on the device.
struct GateRecord {
  TensorView gate;       ///< [kNumGateFields]: part of what the host reads once a step
  TensorView norm_sq;    ///< [1]: written by measure, summed over ranks, read by update
  TensorView first_bad;  ///< [1]: the same, the minimum over ranks
  ConstTensorView loss;  ///< [1]: cross-entropy of the step, over all ranks when update reads it
};

/// Small state that a checkpoint keeps beside the moments.
struct OptimizerState {
  std::vector<double> gate;     ///< [kNumGateFields]
  std::vector<double> windows;  ///< [2 * kSkipWindow + 1]
};

/// AdamW over this rank's part of all parameters, with global-norm clipping, skip-step and the
/// non-finite law, decided on the device by the step gate (ops/step_gate.h). No host read, no
/// allocation in a step. With several ranks norm and loss are summed between measure and update,
/// and every rank decides the same.
class Optimizer {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double clip = 1.0;        ///< 0: none
    double skip_sigma = 0.0;  ///< 0: none
  };

  /// Moments, windows and norm partials come from `arena`. All memory is taken here. Error naming
  /// the tensor when gradient and parameter differ in shape or type, are not the elements of the
  /// blocks, or a name comes twice; Error naming the option when it is out of its range.
  Optimizer(std::vector<OptimizedTensor> tensors, const Options& options, const GateRecord& record,
            Arena& arena, Device& device);

  /// Overwrites norm_sq and first_bad with what this rank's gradients, which are complete, add.
  void measure(const ExecContext& ctx) const;
  /// Gate and update: what happened stands in the gate (GateField), kBadTensor being an index into
  /// tensors().
  void update(double lr, const ExecContext& ctx) const;

  const std::vector<OptimizedTensor>& tensors() const { return tensors_; }
  const std::vector<Moments>& moments() const { return moments_; }
  OptimizerState export_state(Device& device) const;
  /// InputError when a count in it is none, or a number is not finite; nothing is changed then.
  void import_state(const OptimizerState& state, Device& device) const;

 private:
  std::vector<OptimizedTensor> tensors_;
  Options options_;
  GateRecord record_;
  std::vector<Moments> moments_;
  TensorView windows_;
  TensorView norm_sums_;
  TensorView tensor_begin_;
  std::vector<std::int64_t> block_begin_;  // the host's copy of tensor_begin_
};

}  // namespace ulmus::optim
