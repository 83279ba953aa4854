#pragma once

#include "ulmus/comm/operations.h"

namespace ulmus::comm {

/// Error unless `begin` cuts the one-dimensional buffer into one piece for each member.
void check_pieces(const PieceBounds& begin, const TensorView& buffer, const Communicator& group);

/// Where ReduceScatter keeps what the other ranks send: `num_slots` chunks of each of them.
struct ScatterStaging {
  ScatterStaging(const PieceBounds& begin, DType dtype);
  std::int64_t chunk_bytes;
  std::int64_t slot_bytes;  ///< of one chunk, to an aligned address
  std::int64_t num_slots;   ///< two: while one is added up the other fills
  std::int64_t total_bytes;
};

}  // namespace ulmus::comm
