#pragma once

#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): the library chose the name
class App;
}

namespace ulmus::cli {

/// What the command line asks for: set while parsing, run after it. Returns the exit status.
struct Invocation {
  std::function<int()> run;
  bool takes_ranks = false;  ///< the command runs on all ranks that mpirun or srun started
};

/// Each adds one command with its options to the program.
void add_train_command(CLI::App& program, Invocation& invocation);
void add_eval_command(CLI::App& program, Invocation& invocation);
void add_generate_command(CLI::App& program, Invocation& invocation);
void add_data_command(CLI::App& program, Invocation& invocation);
void add_checkpoint_command(CLI::App& program, Invocation& invocation);
void add_parity_command(CLI::App& program, Invocation& invocation);
void add_bench_command(CLI::App& program, Invocation& invocation);

/// `average`, one of the actions of checkpoint.
void add_checkpoint_average(CLI::App& command, Invocation& invocation);

/// Commands of the interface that are not built: not shown by --help, refused by name.
void add_refused_commands(CLI::App& program, Invocation& invocation);
void add_refused_subcommand(CLI::App& command, const char* full_name, const char* name,
                            Invocation& invocation);

/// --ops: which operation has a kernel for which back end.
int print_operations();
/// --version.
int print_version();

}  // namespace ulmus::cli
