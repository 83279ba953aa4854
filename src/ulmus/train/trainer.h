#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "ulmus/data/loader.h"
#include "ulmus/optim/schedule.h"
#include "ulmus/train/checkpointing.h"
#include "ulmus/train/evaluator.h"
#include "ulmus/train/metrics.h"
#include "ulmus/train/reporter.h"
#include "ulmus/train/run.h"
#include "ulmus/train/run_folder.h"
#include "ulmus/train/runtime.h"
#include "ulmus/train/step_trace.h"

namespace ulmus::train {

/// Phases of a run and its end.
optim::Plan make_plan(const Config& config);

/// The training order over data.train. Ids are not verified.
data::Loader make_training_loader(const Config& config);

/// The loop of one run on one rank: step, record, metrics, evaluation, checkpoints, stop. What the
/// ranks do together they do in the same order; the first one writes the files of the run.
class Trainer {
 public:
  /// Everything that can be refused is refused here, before anything is trained.
  Trainer(const Config& config, const StopFlag& stop, Reporter& reporter, comm::World& world);

  TrainResult run();

 private:
  using Clock = std::chrono::steady_clock;
  /// Sums over the steps since the last line of metrics.
  struct Interval {
    std::int64_t steps = 0;
    std::int64_t tokens = 0;
    double elapsed_s = 0.0;   ///< of the steps, data included
    double data_s = 0.0;      ///< waited for the loader
    double exchange_s = 0.0;  ///< moving rows to experts and back
    double useful_flops = 0.0;
  };

  void build();
  std::optional<std::filesystem::path> newest_checkpoint();
  void start();
  /// What every rank knows of the next step before it begins.
  struct NextStep {
    const data::HostBatch* batch = nullptr;
    StepTotals totals;
    Clock::time_point begin;  ///< of the wait for its batch
    int signal = 0;           ///< some rank was asked to stop
    bool is_saving = false;   ///< some rank's thread still writes a checkpoint
  };
  NextStep fetch();
  void step(const NextStep& next);
  void close_step(std::int64_t tokens, double step_s);
  bool writes() const { return ranks_.is_first(); }
  void evaluate();
  void check_record(const model::StepRecord::Host& record, std::int64_t valid_tokens);
  void report_nonfinite(const model::StepRecord::Host& record);
  void log_step(const model::StepRecord::Host& record, std::int64_t valid_tokens, double lr);
  /// All of it, after what is left of a save behind training.
  void save();
  /// Behind training, with checkpoint.async.
  void start_save();
  /// Waits for a save behind training.
  void finish_save();
  void saved(const std::filesystem::path& path, std::int64_t step);
  void report_load();
  /// What run.trace asked for: after its last step, or after the run's.
  void write_trace();
  void check_end();
  bool is_due(std::int64_t every) const;
  bool is_last() const { return position_.step == plan_.num_steps(); }

  const Config& config_;
  const StopFlag& stop_;
  parallel::Ranks ranks_;
  optim::Plan plan_;
  RunFolder folder_;
  LoggingReporter reporter_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<Evaluator> evaluator_;
  MemoryTable memory_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<StepTrace> trace_;
  std::unique_ptr<Checkpointing> checkpointing_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<data::Prefetcher> prefetcher_;
  RunPosition position_;
  std::int64_t saved_step_ = -1;
  std::int64_t started_step_ = -1;  ///< of the newest save behind training
  std::filesystem::path newest_checkpoint_;
  model::StepRecord::Host record_;
  std::optional<EvalResult> eval_;
  Interval interval_;
  double seconds_per_step_ = 0.0;
  double flops_per_token_ = 0.0;
};

}  // namespace ulmus::train
