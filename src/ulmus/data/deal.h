#pragma once

#include <cstdint>
#include <vector>

namespace ulmus::data {

/// Consecutive sequences of a step's order that pass through the model at once.
struct MicroBatch {
  std::int64_t first_sequence = 0;  ///< of the step
  std::int64_t num_sequences = 0;   ///< 0: the rank takes part without a token
  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

/// Which of the step's micro-batches a data rank takes (design, section 6). Micro-batch g is
/// sequences [g m, (g + 1) m) of the step, m = micro_sequences, the last one shorter where m does
/// not divide; it goes to data rank g mod ranks, into slot g div ranks.
struct Deal {
  std::int64_t micro_sequences = 1;
  int rank = 0;
  int ranks = 1;

  /// Slots of every rank: the largest number of micro-batches on a rank.
  std::int64_t num_slots(std::int64_t num_sequences) const;
  /// The micro-batch of this rank in a slot.
  MicroBatch micro_batch(std::int64_t slot, std::int64_t num_sequences) const;
};

}  // namespace ulmus::data
