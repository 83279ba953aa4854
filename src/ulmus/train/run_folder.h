#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "ulmus/base/file.h"
#include "ulmus/train/config.h"
#include "ulmus/train/reporter.h"

namespace ulmus::train {

/// run.name, or the last part of run.dir.
std::string name_of_run(const RunConfig& config);

/// The folder of one run, locked against other processes while this object lives.
class RunFolder {
 public:
  /// Makes the folder. InputError naming it when that is impossible or another process holds it.
  explicit RunFolder(const std::filesystem::path& dir);

  const std::filesystem::path& dir() const { return dir_; }
  std::filesystem::path config_path() const { return dir_ / "config.toml"; }
  std::filesystem::path metrics_path() const { return dir_ / "metrics.jsonl"; }
  std::filesystem::path log_path() const { return dir_ / "log" / "rank-0000.txt"; }

 private:
  std::filesystem::path dir_;
  FileLock lock_;
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
