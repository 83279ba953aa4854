#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ulmus::test {

/// What a finished run of the program left.
struct Finished {
  int status = -1;  ///< exit status; 128 + signal when a signal killed it
  std::string out;
  std::string err;
};

/// A run of the program under test (the `ulmus` of this build).
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments);
  /// Of another executable, by its path.
  Program(const std::string& executable, const std::vector<std::string>& arguments);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits until standard error has said `text`; false when it ended without it.
  bool wait_for(const std::string& text);
  void send(int signal) const;
  pid_t pid() const { return pid_; }
  Finished finish();

 private:
  bool read_more();

  pid_t pid_ = -1;
  int err_fd_ = -1;
  std::filesystem::path out_path_;
  std::string err_;
};

Finished run_program(const std::vector<std::string>& arguments);

/// A folder of its own for each test, removed at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace ulmus::test
