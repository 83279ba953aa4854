#include "ulmus/train/run_folder.h"

#include <fmt/format.h>

#include "ulmus/base/error.h"
#include "ulmus/comm/agreement.h"

namespace ulmus::train {

namespace {

void make(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir / "log", error);
  if (error) fail_input("run.dir: cannot make ", (dir / "log").string(), ": ", error.message());
}

}  // namespace

std::string name_of_run(const RunConfig& config) {
  if (!config.name.empty()) return config.name;
  const std::filesystem::path dir = std::filesystem::absolute(config.dir).lexically_normal();
  return (dir.has_filename() ? dir : dir.parent_path()).filename().string();
}

RunFolder::RunFolder(const std::filesystem::path& dir, comm::Communicator& ranks)
    : dir_(dir), rank_(ranks.rank()) {
  comm::agree(ranks, [&] {
    if (rank_ != 0) return;
    make(dir);
    lock_.emplace(dir / "lock");
  });
}

std::filesystem::path RunFolder::log_path() const {
  return dir_ / "log" / fmt::format("rank-{:04}.txt", rank_);
}

LoggingReporter::LoggingReporter(Reporter& next, const std::filesystem::path& log_path,
                                 LogLevel level)
    : next_(next), file_(log_path, std::ios::app), level_(level) {
  if (!file_) fail_input("run.dir: cannot write ", log_path.string());
}

void LoggingReporter::keep(LogLevel level, std::string_view prefix, std::string_view line) {
  if (level < level_ || !file_) return;
  file_ << prefix << line << '\n' << std::flush;
  if (!file_) next_.warning("the log file cannot be written any more; it ends here");
}

void LoggingReporter::info(std::string_view line) {
  next_.info(line);
  keep(LogLevel::kInfo, "", line);
}

void LoggingReporter::warning(std::string_view line) {
  next_.warning(line);
  keep(LogLevel::kWarning, "warning: ", line);
}

void LoggingReporter::progress(const Progress& progress) {
  next_.progress(progress);
  if (level_ == LogLevel::kDebug) keep(LogLevel::kDebug, "", progress_line(progress));
}

}  // namespace ulmus::train
