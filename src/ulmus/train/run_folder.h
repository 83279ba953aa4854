#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "ulmus/base/file.h"
#include "ulmus/comm/communicator.h"
#include "ulmus/train/config.h"
#include "ulmus/train/reporter.h"

namespace ulmus::train {

/// run.name, or the last part of run.dir.
std::string name_of_run(const RunConfig& config);

/// The folder of one run, locked against other runs while the first rank's object lives.
class RunFolder {
 public:
  /// Collective: the first rank makes and locks the folder. InputError naming it when that is
  /// impossible or another process holds it.
  RunFolder(const std::filesystem::path& dir, comm::Communicator& ranks);

  const std::filesystem::path& dir() const { return dir_; }
  std::filesystem::path config_path() const { return dir_ / "config.toml"; }
  std::filesystem::path metrics_path() const { return dir_ / "metrics.jsonl"; }
  std::filesystem::path trace_path() const { return dir_ / "trace.json"; }
  /// log/rank-NNNN.txt, one for each rank.
  std::filesystem::path log_path() const;

 private:
  std::filesystem::path dir_;
  int rank_;
  std::optional<FileLock> lock_;  ///< of the first rank
};

/// Passes everything on and keeps what the level allows in the run's log file.
class LoggingReporter final : public Reporter {
 public:
  LoggingReporter(Reporter& next, const std::filesystem::path& log_path, LogLevel level);
  void info(std::string_view line) override;
  void warning(std::string_view line) override;
  void progress(const Progress& progress) override;
  /// Why the run ends. Only kept: whoever started the run hears it from the exception.
  void failed(std::string_view why) { keep(LogLevel::kError, "error: ", why); }

 private:
  void keep(LogLevel level, std::string_view prefix, std::string_view line);

  Reporter& next_;
  std::ofstream file_;
  LogLevel level_;
};

}  // namespace ulmus::train
