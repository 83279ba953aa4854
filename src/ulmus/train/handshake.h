#pragma once

#include <cstdint>
#include <functional>

#include "ulmus/comm/communicator.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// What the ranks of a run have in common.
struct Hand {
  std::uint64_t program = 0;  ///< XXH3-64 of the executable
  std::uint64_t config = 0;   ///< XXH3-64 of the resolved configuration
  std::int64_t format = 0;    ///< of checkpoints
};

/// This process's. Keys that may differ between machines do not count: device.threads.
Hand own_hand(Config config);

/// Collective. Refuses a run whose ranks do not agree: an InputError on every rank names the first
/// rank that runs another program, another configuration or another checkpoint format than the
/// first one. An error of `own` on any rank is thrown on all.
void shake_hands(comm::World& world, const std::function<Hand()>& own);

}  // namespace ulmus::train
