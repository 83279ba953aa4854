#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ulmus/comm/operations.h"
#include "ulmus/device/arena.h"
#include "ulmus/nn/moe/router.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::model {

/// Everything that a step tells the host, in one piece of device memory, so that one read fetches
/// it (design, law 4): the step gate, then sums that every micro-batch adds to. With several ranks
/// the sums are those of this rank until they are reduced (reductions), then those of the step.
class StepRecord {
 public:
  /// The host's copy of a record.
  struct Host {
    std::vector<double> gate;                       ///< [kNumGateFields]
    double loss_ce = 0.0;                           ///< cross-entropy / S_tok, summed over the step
    double head_z = 0.0;                            ///< mean of the head's lse^2
    std::vector<double> balance;                    ///< [L] balance loss of each mixture layer
    std::vector<double> z_sums;                     ///< [L] sum of lse^2 over tokens
    std::vector<std::vector<double>> score_sums;    ///< [L][E]
    std::vector<std::vector<std::int64_t>> counts;  ///< [L][E]
    double gate_field(ops::GateField field) const { return gate[static_cast<std::size_t>(field)]; }
  };

  StepRecord(Arena& arena, int num_moe_layers, int num_experts);

  TensorView gate() const { return gate_; }
  /// [2] f64, as ops::head_loss adds to it.
  TensorView loss_sums() const { return loss_sums_; }
  /// [1] f64: the cross-entropy.
  ConstTensorView loss() const { return loss_sums_.rows(0, 1); }
  /// [1] f64 each: as optim::GateRecord.
  TensorView norm_sq() const { return norm_sq_; }
  TensorView first_bad() const { return first_bad_; }
  nn::RouterRecord of_moe_layer(int moe_layer) const;
  /// [L * E] i64: requested routes of the step.
  ConstTensorView counts() const { return counts_; }

  /// What becomes the step's over all ranks of a stage, and how.
  std::vector<comm::AllReduce::Part> reductions() const;

  /// Zeroes the sums; the gate stays.
  void clear(const ExecContext& ctx) const;
  /// The one host read of a step. Memory of `host` is reused.
  void read(Host& host, Device& device) const;
  Host make_host() const;

 private:
  int num_moe_layers_;
  int num_experts_;
  TensorView bytes_;
  TensorView sums_;
  TensorView gate_;
  TensorView loss_sums_;
  TensorView balance_;
  TensorView z_sums_;
  TensorView score_sums_;
  TensorView norm_sq_;
  TensorView float_sums_;
  TensorView first_bad_;
  TensorView counts_;
  mutable std::vector<std::byte> host_bytes_;
};

}  // namespace ulmus::model
