#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ulmus/checkpoint/checkpoint.h"
#include "ulmus/train/config.h"
#include "ulmus/train/runtime.h"

namespace ulmus::train {

/// Where a run stands between two steps.
struct RunPosition {
  std::int64_t step = 0;           ///< optimizer steps done
  std::int64_t tokens = 0;         ///< tokens seen
  std::int64_t data_position = 0;  ///< sequences of the data order consumed
};

/// Saves and restores a runtime.
class Checkpointing {
 public:
  Checkpointing(const Config& config, Runtime& runtime);

  /// checkpoints/step-NNNNNNNN of the run folder; then all but the newest checkpoint.keep go.
  std::filesystem::path save(const RunPosition& position);
  /// Everything: weights, moments, gate, windows, router state. The model's configuration must be
  /// the checkpoint's; InputError with both values otherwise.
  RunPosition resume(const std::filesystem::path& dir);
  /// Weights (and with `load_optimizer` moments) of another run; counters start anew.
  void load_weights(const std::filesystem::path& dir, bool load_optimizer);

  std::filesystem::path checkpoints_dir() const { return config_.run.dir / "checkpoints"; }

 private:
  checkpoint::Manifest facts(const RunPosition& position);
  void restore_state(const checkpoint::Manifest& manifest);

  const Config& config_;
  Runtime& runtime_;
  checkpoint::CheckpointWriter writer_;
};

/// Refs of the weights of a model.
std::vector<checkpoint::TensorRef> parameter_refs(const model::LanguageModel& model);

/// Refs of weights and of the optimizer's moments.
std::vector<checkpoint::TensorRef> training_refs(Runtime& runtime);

/// Weights and balancing biases of a checkpoint, moments left out.
void load_for_evaluation(const std::filesystem::path& dir, const model::LanguageModel& model,
                         Device& device);

}  // namespace ulmus::train
