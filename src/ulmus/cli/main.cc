#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <exception>
#include <new>
#include <string>

#include "ulmus/base/error.h"
#include "ulmus/cli/commands.h"
#include "ulmus/cli/on_ranks.h"
#include "ulmus/cli/output.h"

namespace ulmus::cli {
namespace {

int status_of(ExitCode code) { return static_cast<int>(code); }

/// A failed parse may be a call for help (status 0); everything else is wrong usage.
int finish_parse(const CLI::App& program, const CLI::ParseError& error) {
  return program.exit(error) == 0 ? status_of(ExitCode::kDone) : status_of(ExitCode::kUsage);
}

int run_program(int argc, char** argv) {
  CLI::App program("Trains mixture-of-experts language models.", "ulmus");
  Invocation invocation;
  program.add_flag_callback(
      "--version", [&] { invocation.run = print_version; },
      "Version, back ends, BLAS and MPI of this program");
  program.add_flag_callback(
      "--ops", [&] { invocation.run = print_operations; },
      "Operations and the back ends that have a kernel for them");
  program.require_subcommand(0, 1);
  add_train_command(program, invocation);
  add_eval_command(program, invocation);
  add_generate_command(program, invocation);
  add_data_command(program, invocation);
  add_checkpoint_command(program, invocation);
  add_parity_command(program, invocation);
  add_bench_command(program, invocation);
  add_refused_commands(program, invocation);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return finish_parse(program, error);
  }
  if (!invocation.run) {
    print_note(program.help());
    return status_of(ExitCode::kUsage);
  }
  if (!invocation.takes_ranks) refuse_ranks();
  const int status = invocation.run();
  finish_output();
  return status;
}

/// A file that is opened must not become standard error.
void fill_standard_descriptors() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO)
    fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

int report(const char* message, ExitCode code) {
  print_note(concat("ulmus: error: ", message));
  return status_of(code);
}

}  // namespace
}  // namespace ulmus::cli

int main(int argc, char** argv) {
  using ulmus::ExitCode;
  ulmus::cli::fill_standard_descriptors();
  try {
    return ulmus::cli::run_program(argc, argv);
  } catch (const ulmus::Error& error) {
    return ulmus::cli::report(error.what(), error.exit_code());
  } catch (const std::bad_alloc&) {
    return ulmus::cli::report("out of memory", ExitCode::kFailed);
  } catch (const std::exception& error) {
    return ulmus::cli::report(error.what(), ExitCode::kFailed);
  }
}
