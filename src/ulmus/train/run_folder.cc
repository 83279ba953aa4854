#include "ulmus/train/run_folder.h"

#include "ulmus/base/error.h"

namespace ulmus::train {

namespace {

std::filesystem::path made(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir / "log", error);
  if (error) fail_input("run.dir: cannot make ", (dir / "log").string(), ": ", error.message());
  return dir;
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& dir) : dir_(made(dir)), lock_(dir / "lock") {}

LoggingReporter::LoggingReporter(Reporter& next, const std::filesystem::path& log_path)
    : next_(next), file_(log_path, std::ios::app) {}

void LoggingReporter::info(std::string_view line) {
  next_.info(line);
  file_ << line << '\n' << std::flush;
}

void LoggingReporter::warning(std::string_view line) {
  next_.warning(line);
  file_ << "warning: " << line << '\n' << std::flush;
}

}  // namespace ulmus::train
