#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "ulmus/comm/communicator.h"
#include "ulmus/device/arena.h"
#include "ulmus/model/language_model.h"
#include "ulmus/parallel/mesh.h"
#include "ulmus/train/config.h"
#include "ulmus/train/reporter.h"

namespace ulmus::train {

/// Set by a signal handler; the run stops after the step in which it sees it, checkpoint saved.
struct StopFlag {
  std::atomic<int> signal{0};  ///< 0, or the number of the signal
};

/// What `train --dry-run` knows before anything is allocated. Memory is that of this rank.
struct DryRun {
  parallel::Layout layout;
  model::ParameterCounts parameters;
  MemoryTable memory;
  double useful_flops_per_token = 0.0;  ///< forward and backward
  std::int64_t steps = 0;
  std::int64_t micro_batches = 0;  ///< of one step
  int threads = 0;
};
DryRun dry_run(const Config& config, comm::World& world);

struct TrainResult {
  std::int64_t step = 0;  ///< steps completed in all
  std::int64_t tokens = 0;
  int signal = 0;  ///< the signal that stopped the run, 0 when it ran to its end
  std::filesystem::path checkpoint;
};
/// Trains, or continues from the newest checkpoint in run.dir. InputError before step 1 for bad
/// configuration, data or checkpoints; Error during training. Collective over the world: a signal
/// on any rank stops all of them after the same step.
TrainResult run_training(const Config& config, const StopFlag& stop, Reporter& reporter,
                         comm::World& world);

/// Held-out loss.
struct EvalResult {
  std::int64_t tokens = 0;      ///< predicted tokens
  std::int64_t text_bytes = 0;  ///< bytes of the raw text they stand for
  double loss = 0.0;            ///< mean cross-entropy, nats a token
  double perplexity = 0.0;
  double bits_per_byte = 0.0;
};
/// Over data.eval, with the weights of a checkpoint. Collective; the same result on every rank.
EvalResult evaluate_checkpoint(const Config& config, const std::filesystem::path& checkpoint,
                               Reporter& reporter, comm::World& world);

struct GenerateOptions {
  std::filesystem::path checkpoint;  ///< its folder; model and tokenizer come from its run
  std::string prompt;
  std::int64_t tokens = 128;
  double temperature = 0.8;  ///< 0: the likeliest token
  double top_p = 0.95;
  std::uint64_t seed = 0;
  std::optional<std::filesystem::path> tokenizer = {};  ///< default: the one of the run's config
};
/// The text after the prompt; ends early at an end-of-text token.
std::string generate(const GenerateOptions& options, Reporter& reporter);

}  // namespace ulmus::train
