#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
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
  /// Everything: weights, moments, gate, windows, router state. InputError with both values where
  /// the run was started with another configuration (config_file.h).
  RunPosition resume(const std::filesystem::path& dir);
  /// Weights (and with `load_optimizer` moments) of another run, whose tokenizer may have been
  /// another one; counters start anew.
  void load_weights(const std::filesystem::path& dir, bool load_optimizer);

  std::filesystem::path checkpoints_dir() const { return config_.run.dir / "checkpoints"; }

 private:
  checkpoint::Manifest facts(const RunPosition& position);
  void restore_state(const checkpoint::Manifest& manifest);

  const Config& config_;
  Runtime& runtime_;
  std::optional<std::uint64_t> tokenizer_;  ///< fingerprint
  checkpoint::CheckpointWriter writer_;
};

/// Refs of the weights of a model.
std::vector<checkpoint::TensorRef> parameter_refs(const model::LanguageModel& model);

/// Refs of weights and of the optimizer's moments.
std::vector<checkpoint::TensorRef> training_refs(Runtime& runtime);

/// Weights and balancing biases of a checkpoint, moments left out. InputError when `tokenizer`, the
/// fingerprint of the one in use, is known and not that of the training.
void load_for_evaluation(const std::filesystem::path& dir, std::optional<std::uint64_t> tokenizer,
                         const model::LanguageModel& model, Device& device);

}  // namespace ulmus::train
