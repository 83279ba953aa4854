#pragma once

#include <cstdint>

#include "ulmus/data/loader.h"
#include "ulmus/device/arena.h"
#include "ulmus/nn/batch.h"

namespace ulmus::train {

/// Device memory of one micro-batch, filled from the host's batch of a whole step.
class BatchBuffers {
 public:
  /// Room for `max_sequences` of `sequence_length` tokens.
  BatchBuffers(Arena& arena, std::int64_t max_sequences, std::int64_t sequence_length,
               std::int64_t window);

  /// Uploads what never changes (positions). Once.
  void upload_positions(Device& device);
  /// Sequences [begin, end) of the step.
  nn::Batch load(const data::HostBatch& batch, std::int64_t begin, std::int64_t end,
                 Device& device) const;

 private:
  std::int64_t sequence_length_;
  std::int64_t window_;
  TensorView tokens_;
  TensorView targets_;
  TensorView first_key_;
  TensorView positions_;
  TensorView valid_;
};

}  // namespace ulmus::train
