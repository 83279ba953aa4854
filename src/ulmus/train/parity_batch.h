#pragma once

#include <cstdint>

#include "ulmus/data/loader.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// The sequences of one step of a parity run, made up: a pure function of run.seed and the step.
/// Documents of random lengths that do not see each other; padding at the end of every third
/// sequence; and in every second step a last sequence of padding alone, so that a micro-batch
/// without a valid token is among them where the last one holds a single sequence.
data::HostBatch parity_step(const Config& config, std::int64_t step);

/// What `deal` gives its rank of the step.
data::HostBatch dealt(const data::HostBatch& step, const data::Deal& deal);

}  // namespace ulmus::train
