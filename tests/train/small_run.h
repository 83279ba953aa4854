#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ulmus/parallel/ranks.h"
#include "ulmus/train/checkpointing.h"
#include "ulmus/train/config.h"
#include "ulmus/train/reporter.h"
#include "ulmus/train/run.h"
#include "ulmus/train/runtime.h"

namespace ulmus::test {

/// A folder with a tokenizer and token files of a little English text, and configurations of tiny
/// models on it. Removed at the end.
class SmallRun {
 public:
  SmallRun();
  ~SmallRun();
  SmallRun(const SmallRun&) = delete;
  SmallRun& operator=(const SmallRun&) = delete;

  /// The tiny model on the folder's data; run.dir is <folder>/<name>.
  train::Config config(const std::string& name,
                       const std::vector<std::string>& overrides = {}) const;
  /// The same as the text of a file.
  std::string config_text(const std::string& name) const;
  const std::filesystem::path& folder() const { return folder_; }
  /// Writes a tokenizer.json, learnt from other text; of the same size unless another is given.
  std::filesystem::path other_tokenizer(int vocab_size = kVocab) const;

  static constexpr int kVocab = 320;

 private:
  std::filesystem::path folder_;
};

/// The ranks of a run in one process alone.
class OneRank {
 public:
  OneRank();
  comm::World& world() { return world_; }
  const parallel::Ranks& ranks() const { return ranks_; }

 private:
  comm::World world_;
  parallel::Ranks ranks_;
};

/// train::run_training and train::evaluate_checkpoint in one process.
train::TrainResult train_alone(const train::Config& config, const train::StopFlag& stop,
                               train::Reporter& reporter);
train::EvalResult evaluate_alone(const train::Config& config,
                                 const std::filesystem::path& checkpoint,
                                 train::Reporter& reporter);

/// Keeps what it is told; may set the stop flag at a step.
class QuietReporter final : public train::Reporter {
 public:
  void info(std::string_view line) override { lines.emplace_back(line); }
  void warning(std::string_view line) override { warnings.emplace_back(line); }
  void progress(const train::Progress& progress) override;

  std::vector<std::string> lines;
  std::vector<std::string> warnings;
  std::int64_t stop_at_step = -1;
  train::StopFlag stop;
};

/// Lines of metrics.jsonl without the keys that hold times, one string a line.
std::vector<std::string> metrics_without_times(const std::filesystem::path& run_dir);

/// One number of every line of metrics.jsonl.
std::vector<double> metric_of(const std::filesystem::path& run_dir, const std::string& key);

/// One rank's runtime and checkpoints of a run, without the loop around them.
class LoadedRun {
 public:
  LoadedRun(const train::Config& config, comm::World& world);
  /// Saves into `folder` instead of the run's.
  void save(const std::filesystem::path& folder, const train::RunPosition& position);

 private:
  train::Config config_;
  parallel::Ranks ranks_;
  std::unique_ptr<Device> device_;
  train::Runtime runtime_;

 public:
  train::Checkpointing checkpointing;
};

/// Names and contents of a checkpoint's files that are part of its promise (all but info.json).
std::map<std::string, std::string> checkpoint_bytes(const std::filesystem::path& checkpoint);

}  // namespace ulmus::test
