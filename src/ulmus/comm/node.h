#pragma once

#include "ulmus/comm/communicator.h"

namespace ulmus::comm {

/// The ranks that share this rank's machine.
struct Node {
  int ranks = 1;  ///< on this machine, this one included
  int cores = 1;  ///< that they may use together (their affinity masks)

  /// Threads that leave every rank its share: at least one, at most those of the rank's own mask.
  int threads_of_rank = 1;
};

/// Collective. Ranks that are not real (meta) count as alone on their machine.
Node find_node(World& world);

}  // namespace ulmus::comm
