#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "ulmus/train/reporter.h"

namespace ulmus::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTerminalInterval = std::chrono::milliseconds(200);
constexpr auto kPlainInterval = std::chrono::seconds(10);

std::string time_left(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}m{:02}s", whole / 60, whole % 60);
}

/// A run does not end because nobody can hear it: errors of standard error are ignored.
void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

class TerminalReporter final : public Reporter {
 public:
  TerminalReporter() : is_terminal_(::isatty(STDERR_FILENO) != 0) {}
  ~TerminalReporter() override { clear_progress(); }
  TerminalReporter(const TerminalReporter&) = delete;
  TerminalReporter& operator=(const TerminalReporter&) = delete;

  void info(std::string_view line) override {
    clear_progress();
    say(fmt::format("{}\n", line));
  }
  void warning(std::string_view line) override { info(fmt::format("warning: {}", line)); }
  void progress(const Progress& progress) override {
    const Clock::time_point now = Clock::now();
    const bool is_last = progress.step == progress.max_steps;
    if (!is_last && now - shown_ < (is_terminal_ ? Clock::duration(kTerminalInterval)
                                                 : Clock::duration(kPlainInterval))) {
      return;
    }
    shown_ = now;
    const std::string line = progress_line(progress);
    if (is_terminal_) {
      say(fmt::format("\r\x1b[2K{}", line));
      has_progress_line_ = true;
    } else {
      say(fmt::format("{}\n", line));
    }
    std::fflush(stderr);
  }

 private:
  void clear_progress() {
    if (has_progress_line_) say("\n");
    has_progress_line_ = false;
  }
  bool is_terminal_;
  bool has_progress_line_ = false;
  Clock::time_point shown_{};
};

}  // namespace

std::string progress_line(const Progress& progress) {
  return fmt::format(
      "step {}/{}  loss {:.4f}  {:.0f} tokens/s  {:.1f} GFLOP/s  load max/mean {:.2f}  left {}",
      progress.step, progress.max_steps, progress.loss, progress.tokens_per_s,
      progress.useful_gflops, progress.max_over_mean, time_left(progress.seconds_left));
}

std::unique_ptr<Reporter> make_terminal_reporter() { return std::make_unique<TerminalReporter>(); }

}  // namespace ulmus::train
