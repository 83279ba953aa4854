#include "ulmus/data/deal.h"

#include <algorithm>

namespace ulmus::data {

std::int64_t Deal::num_slots(std::int64_t num_sequences) const {
  const std::int64_t a_slot = micro_sequences * ranks;
  return (num_sequences + a_slot - 1) / a_slot;
}

MicroBatch Deal::micro_batch(std::int64_t slot, std::int64_t num_sequences) const {
  const std::int64_t first = (slot * ranks + rank) * micro_sequences;
  return {.first_sequence = std::min(first, num_sequences),
          .num_sequences = std::clamp<std::int64_t>(num_sequences - first, 0, micro_sequences)};
}

}  // namespace ulmus::data
