#pragma once

#include "ulmus/comm/communicator.h"
#include "ulmus/parallel/mesh.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// The layout that [parallel] gives for so many ranks. InputError naming keys and values for every
/// combination that the trainer does not take: the one place that refuses, for `parity` too.
parallel::Layout layout_of(const Config& config, int ranks);

/// The same for all ranks of a world. Collective; a refusal is thrown on every rank.
parallel::Layout layout_of(const Config& config, comm::World& world);

}  // namespace ulmus::train
