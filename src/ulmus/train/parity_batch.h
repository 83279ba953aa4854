#pragma once

#include <cstdint>

#include "ulmus/data/loader.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// What the made-up sequences look like.
struct ParityData {
  std::int64_t mean_document = 11;  ///< tokens
  std::int64_t padded_every = 3;    ///< one sequence of so many ends with padding; 0: none
  double padding = 0.25;            ///< part of it that is padding, rounded down
  double repeated = 0.0;            ///< share of the tokens that are all the same: skewed routing
};

/// The sequences of one step of a parity run, made up: a pure function of run.seed and the step.
/// Documents of random lengths that do not see each other; the last token of a full sequence
/// predicts the one behind it, as in a chunk; and in every second step a last sequence of padding
/// alone, so that a micro-batch without a valid token is among them where the last one holds a
/// single sequence.
data::HostBatch parity_step(const Config& config, std::int64_t step, const ParityData& data = {});

/// What `deal` gives its rank of the step.
data::HostBatch dealt(const data::HostBatch& step, const data::Deal& deal);

}  // namespace ulmus::train
