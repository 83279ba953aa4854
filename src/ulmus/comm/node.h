#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ulmus/comm/communicator.h"

namespace ulmus::comm {

/// The ranks that share this rank's machine.
struct Node {
  int ranks = 1;  ///< on this machine, this one included
  int cores = 1;  ///< that they may use together (their affinity masks)
  /// That they could use if nobody had bound them: more than `cores` where the launcher binds ranks
  /// to cores.
  int online_cores = 1;
  /// Threads that leave every rank its share: at least one, at most those of the rank's own mask.
  int threads_of_rank = 1;
};

/// Cores by number, 64 in a word; words beyond the last hold none.
using CoreMask = std::vector<std::uint64_t>;

/// Where a rank is.
struct Place {
  int leader = 0;           ///< lowest rank on its machine
  CoreMask cores;           ///< that it may use
  std::int64_t online = 1;  ///< cores that it could use if nobody had bound it
};

/// This process's, by its affinity mask; at least one core.
Place find_place(int leader);

/// The machine of `rank`; `places` by rank.
Node node_of(std::span<const Place> places, int rank);

/// Collective. Ranks that are not real (meta) count as alone on their machine.
Node find_node(World& world);

}  // namespace ulmus::comm
