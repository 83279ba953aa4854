#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ulmus::train {

/// Where a run stands, for the progress line.
struct Progress {
  std::int64_t step = 0;
  std::int64_t max_steps = 0;
  double loss = 0.0;  ///< cross-entropy of the step, nats a token
  double tokens_per_s = 0.0;
  double useful_gflops = 0.0;
  double seconds_left = 0.0;
  double max_over_mean = 0.0;  ///< worst layer's expert load
};

/// What a long command tells its user.
class Reporter {
 public:
  virtual ~Reporter() = default;
  /// A line that stays.
  virtual void info(std::string_view line) = 0;
  virtual void warning(std::string_view line) = 0;
  /// Called after every step; the reporter decides what to show.
  virtual void progress(const Progress& progress) = 0;
};

/// "step 3/100  loss 5.4321  1234 tokens/s ..."
std::string progress_line(const Progress& progress);

/// On standard error: one line that is overwritten where that is a terminal, else a plain line now
/// and then.
std::unique_ptr<Reporter> make_terminal_reporter();

}  // namespace ulmus::train
