#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "ulmus/checkpoint/tensor_ref.h"

namespace ulmus::checkpoint {

struct AverageReport {
  std::filesystem::path path;  ///< the new checkpoint
  std::int64_t step = 0;       ///< of the last one given, as tokens
  std::int64_t tokens = 0;
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< of all files written
};

/// The plain mean of the weights of two or more checkpoints of one model, as a checkpoint:
///
///   mean[i] = round((x_0[i] + x_1[i] + ... + x_{C-1}[i]) / C)
///
/// summed in f64 in the order given, divided once, rounded once to the stored type. Balancing
/// biases (`layers.N.moe.router.bias` among the manifest's doubles) likewise, rounded to f32 unless
/// the weights are f64, so that a model keeps the bits that are saved.
///
/// The new checkpoint has no moments, no gate, no windows and no counts of routes: it is there to
/// be evaluated, generated from and started from without the optimizer's state. Configuration,
/// step, tokens, data position and the hash of the training data are those of the last checkpoint
/// given; `averaged` in its info.json lists all of them as given, beside the facts of `info`.
///
/// `output` becomes the checkpoint's folder, by one rename at the end. Its name is free, but where
/// it begins with `step-` it must be that of the step (folder.h). Until then the work lies in a
/// folder with the same name and `.part` behind it. Reads one piece of one tensor of all
/// checkpoints at a time; the weights of one model are held in memory until they are written.
///
/// InputError, with nothing left behind: fewer than two checkpoints; one given twice, whatever way
/// its path is written; `output` exists; tensors that differ in name, type, shape or slices,
/// `model.*` and `moe.*` keys that differ, biases that differ in name or length (all differences
/// listed with both values); tokenizers that differ where both are known; a checkpoint whose
/// weights are damaged (named): every byte of them is verified against its hash on the way. Error
/// when the result cannot be written.
AverageReport average(std::span<const std::filesystem::path> checkpoints,
                      const std::filesystem::path& output, const Info& info = {});

}  // namespace ulmus::checkpoint
