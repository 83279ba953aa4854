#include "tests/cli/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "ulmus/base/check.h"
#include "ulmus/base/file.h"

namespace ulmus::test {
namespace {

std::filesystem::path make_temporary(const char* what) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / concat("ulmus_", what, "_XXXXXX")).string();
  ULMUS_CHECK(::mkdtemp(pattern.data()) != nullptr, pattern);
  return pattern;
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments)
    : Program(ULMUS_TEST_PROGRAM, arguments) {}

Program::Program(const std::string& executable, const std::vector<std::string>& arguments)
    : out_path_(make_temporary("program") / "out") {
  std::array<int, 2> ends{};
  ULMUS_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe");
  err_fd_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path_.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<std::string> words = {executable};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const int status =
      ::posix_spawn(&pid_, executable.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ULMUS_CHECK(status == 0, "cannot start ", executable);
}

Program::~Program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (err_fd_ >= 0) ::close(err_fd_);
  std::error_code ignored;
  std::filesystem::remove_all(out_path_.parent_path(), ignored);
}

bool Program::read_more() {
  std::array<char, 4096> buffer{};
  const ssize_t size = ::read(err_fd_, buffer.data(), buffer.size());
  if (size <= 0) return false;
  err_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

bool Program::wait_for(const std::string& text) {
  while (err_.find(text) == std::string::npos) {
    if (!read_more()) return false;
  }
  return true;
}

void Program::send(int signal) const { ::kill(pid_, signal); }

Finished Program::finish() {
  while (read_more()) {
  }
  int status = 0;
  ULMUS_CHECK(::waitpid(pid_, &status, 0) == pid_, "waitpid");
  pid_ = -1;
  Finished finished;
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = read_file(out_path_);
  finished.err = err_;
  return finished;
}

Finished run_program(const std::vector<std::string>& arguments) {
  return Program(arguments).finish();
}

TestFolder::TestFolder() : folder_(make_temporary("cli_test")) {}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TestFolder::write(const std::string& name, const std::string& text) const {
  FileWriter file(folder_ / name);
  file.write(std::string_view(text));
  file.sync_and_close();
  return path(name);
}

}  // namespace ulmus::test
