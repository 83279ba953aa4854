#pragma once

#include "ulmus/device/arena.h"
#include "ulmus/model/language_model.h"
#include "ulmus/parallel/mesh.h"
#include "ulmus/train/config.h"
#include "ulmus/train/runtime.h"

/// What is known of a run before it begins. No formula of any layer stands behind it: the loop
/// itself runs on a device without memory.
namespace ulmus::train {

/// Memory that a rank takes: its own steps, run on a meta device, and the staging of its
/// checkpoints.
MemoryTable measure_memory(const Config& config, Purpose purpose, const parallel::Layout& layout,
                           int rank, int num_threads);

/// Parameters of the whole model.
model::ParameterCounts parameters_of(const Config& config);

/// Useful floating-point operations of one token, forward and backward, at full sequences.
double useful_flops_per_token(const Config& config);

}  // namespace ulmus::train
