#pragma once

#include <memory>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/device/exec_context.h"
#include "ulmus/nn/parameter.h"
#include "ulmus/tensor/blocks.h"

namespace ulmus::parallel {

/// The groups that hold copies of parameters, by family.
struct FamilyGroups {
  comm::Communicator* dense = nullptr;   ///< ranks of the stage
  comm::Communicator* expert = nullptr;  ///< ranks with the same experts

  comm::Communicator& of(nn::ParameterFamily family) const {
    return *(family == nn::ParameterFamily::kDense ? dense : expert);
  }
};

/// The part of one parameter that a rank owns: updates, saves and loads. Every block of every
/// parameter is owned by exactly one rank of its family's group.
struct OwnedShare {
  int parameter = 0;  ///< index into the set
  BlockRange blocks;  ///< of the whole tensor
  TensorView value;   ///< [blocks.num_elements()]
  TensorView grad;    ///< the same; empty without gradients. Complete after finish_gradients
};

/// Holds the parameters of a model for all ranks: who owns what, how weights get to where they are
/// used and gradients to who owns them. A training step is
///
///   begin_step
///   for each micro-batch: begin_micro_batch, forward and backward of the model
///   finish_gradients     owned gradients are the sums over all ranks and micro-batches
///   (the optimizer updates the owned values)
///   publish_weights      every rank sees them, at the latest when a unit is used next
class ParameterStore : public nn::ParameterUse {
 public:
  /// One for each parameter, in the order of the set; a share may be empty.
  virtual const std::vector<OwnedShare>& shares() const = 0;

  virtual void begin_step(const ExecContext& ctx) = 0;
  enum class Position : std::uint8_t { kNotLast, kLast };
  virtual void begin_micro_batch(Position position) = 0;
  virtual void finish_gradients() = 0;
  virtual void publish_weights() = 0;
  /// Waits for whatever is still under way, so that every rank can read every weight it holds.
  virtual void finish_weights() = 0;
};

}  // namespace ulmus::parallel
