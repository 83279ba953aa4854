#pragma once

#include "ulmus/device/arena.h"
#include "ulmus/model/language_model.h"
#include "ulmus/parallel/mesh.h"
#include "ulmus/parallel/ranks.h"
#include "ulmus/train/config.h"
#include "ulmus/train/runtime.h"

/// What is known of a run before it begins. No formula of any layer stands behind it: the loop
/// itself runs on a device without memory.
namespace ulmus::train {

/// Memory that a rank takes: its own steps, run on a meta device, and beside them what its
/// checkpoints and run.trace take of the host's.
MemoryTable measure_memory(const Config& config, Purpose purpose, const parallel::Layout& layout,
                           int rank, int num_threads);

/// The same for a rank that is there. Collective: InputError on every rank, with the table, when it
/// is more on any than check_budget allows.
MemoryTable measure_within_budget(const Config& config, Purpose purpose,
                                  const parallel::Ranks& ranks);

/// Parameters of the whole model.
model::ParameterCounts parameters_of(const Config& config);

/// Useful floating-point operations of one token, forward and backward, at full sequences.
double useful_flops_per_token(const Config& config);

}  // namespace ulmus::train
