#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "ulmus/device/arena.h"
#include "ulmus/model/config.h"
#include "ulmus/model/step_record.h"
#include "ulmus/train/run.h"

namespace ulmus::train {

/// Everything of one logged step that is not in the step's record.
struct StepFacts {
  std::int64_t step = 0;
  std::int64_t tokens = 0;     ///< seen in all, this step included
  double routed_tokens = 0.0;  ///< T_step
  double lr = 0.0;
  double step_s = 0.0;      ///< mean of the steps since the last logged one, data included
  double data_s = 0.0;      ///< ... waited for the loader
  double exchange_s = 0.0;  ///< ... moving rows to experts and back
  double tokens_per_s = 0.0;
  double useful_gflops = 0.0;
  MemoryTable memory;
  std::optional<EvalResult> eval;
};

/// How unevenly routes fall on experts.
struct LoadFacts {
  double max_over_mean = 0.0;    ///< largest count / mean count; 0 without routes
  double entropy_deficit = 0.0;  ///< 1 - H(f) / log E
};
LoadFacts load_facts(const std::vector<std::int64_t>& counts);

/// Balance loss of one layer over the whole step, E sum_e f_e P_e with the step's own counts: what
/// the `step` scope logs (the objective uses the previous step's fractions).
double exact_step_balance(const std::vector<std::int64_t>& counts,
                          const std::vector<double>& score_sums, double routed_tokens);

/// Worst layer's max_over_mean.
double worst_max_over_mean(const model::StepRecord::Host& record);

/// Expert load as a small picture: a bar for each expert, as tall as its share; a full one has
/// twice the mean or more.
std::string load_picture(const std::vector<std::int64_t>& counts);

/// The line of metrics.jsonl, without its end (docs/metrics.md lists the keys).
std::string metrics_line(const StepFacts& facts, const model::StepRecord::Host& record,
                         const model::ModelConfig& config);

/// metrics.jsonl of a run. Lines are flushed as they are written.
class MetricsFile {
 public:
  /// Continues after `step`: lines of later steps, which a broken run may have left, are removed.
  MetricsFile(const std::filesystem::path& path, std::int64_t step);
  /// Error naming the file when it cannot be written.
  void write(const std::string& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace ulmus::train
