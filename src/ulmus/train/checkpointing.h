#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ulmus/checkpoint/checkpoint.h"
#include "ulmus/train/config.h"
#include "ulmus/train/runtime.h"
#include "ulmus/train/token_data.h"

namespace ulmus::train {

/// Where a run stands between two steps.
struct RunPosition {
  std::int64_t step = 0;           ///< optimizer steps done
  std::int64_t tokens = 0;         ///< tokens seen
  std::int64_t data_position = 0;  ///< sequences of the data order consumed
};

/// Saves and restores a runtime. What changes or reads its state is collective over its ranks.
class Checkpointing {
 public:
  Checkpointing(const Config& config, Runtime& runtime, const DataIdentity& data,
                checkpoint::SaveHooks hooks = {});

  /// InputError on every rank where the run folder has no room for a checkpoint. Collective.
  void expect_room();

  /// checkpoints/step-NNNNNNNN of the run folder; then all but the newest checkpoint.keep go.
  /// No save may be pending.
  std::filesystem::path save(const RunPosition& position);

  /// The same behind training, with checkpoint.async: the weights may change when this returns.
  void start(const RunPosition& position);
  /// Of a save that was started: it is not done; this rank's thread writes; its next part, the path
  /// when it was the last (to be called when no rank's thread writes); all the rest of it.
  bool is_pending() const { return writer_.is_pending(); }
  bool is_busy() const { return writer_.is_busy(); }
  std::optional<std::filesystem::path> advance();
  std::filesystem::path finish();

  /// Everything: weights, moments, gate, windows, router state. InputError with both values where
  /// the run was started with another configuration (config_file.h), tokenizer or training data.
  RunPosition resume(const std::filesystem::path& dir);
  /// Weights and balancing biases of another run, whose data may have been others; with
  /// `load_optimizer` also moments, the count of updates, skip-step's windows and the routers'
  /// counts of the step before. Steps, tokens and data position start anew. Returns how its model's
  /// configuration differs ("" where it does not).
  std::string load_weights(const std::filesystem::path& dir, bool load_optimizer);

  /// What the saves that were done since the last call should have removed and could not, a line
  /// each; on the first rank.
  std::vector<std::string> take_not_removed() { return std::exchange(not_removed_, {}); }

  std::filesystem::path checkpoints_dir() const { return config_.run.dir / "checkpoints"; }

 private:
  checkpoint::Manifest facts(const RunPosition& position);
  checkpoint::Info info() const;
  std::filesystem::path done(const checkpoint::SaveReport& report);
  void restore_state(const checkpoint::Manifest& manifest, const std::filesystem::path& dir);
  void restore_small_state(const checkpoint::Manifest& manifest, const std::filesystem::path& dir);
  comm::Communicator& ranks() const { return runtime_.ranks().world().all(); }

  const Config& config_;
  Runtime& runtime_;
  DataIdentity data_;
  checkpoint::CheckpointWriter writer_;
  std::vector<std::string> not_removed_;
};

/// Refs of the weights of a model that one rank holds alone.
std::vector<checkpoint::TensorRef> whole_refs(const model::LanguageModel& model);

/// Refs of what this rank owns of the weights.
std::vector<checkpoint::TensorRef> weight_refs(Runtime& runtime);

/// Refs of what it owns of weights and of the optimizer's moments.
std::vector<checkpoint::TensorRef> training_refs(Runtime& runtime);

/// Host memory that saving takes: a piece, or with checkpoint.async a copy of all that this rank
/// owns.
std::int64_t staging_bytes(const Config& config, Runtime& runtime);

/// Weights and balancing biases of a checkpoint, moments left out, into `weights`, those of `model`
/// that this rank owns. Collective. InputError when `tokenizer`, the
/// fingerprint of the one in use, is known and not that of the training, or when the checkpoint has
/// biases and `config` no place for them. Returns how the model's configuration differs ("" where
/// it does not).
std::string load_for_evaluation(const std::filesystem::path& dir, const Config& config,
                                std::optional<std::uint64_t> tokenizer,
                                std::span<const checkpoint::TensorRef> weights,
                                const model::LanguageModel& model, Device& device,
                                comm::Communicator& ranks);

}  // namespace ulmus::train
