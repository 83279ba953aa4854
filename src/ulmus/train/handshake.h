#pragma once

#include "ulmus/comm/communicator.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// Collective. Refuses a run whose ranks do not agree: an InputError on every rank names the first
/// rank that runs another program, another configuration or another checkpoint format than the
/// first one. Keys that may differ between machines do not count: device.threads.
void shake_hands(comm::World& world, const Config& config);

}  // namespace ulmus::train
