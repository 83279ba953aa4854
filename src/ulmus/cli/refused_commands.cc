#include <CLI/CLI.hpp>

#include "ulmus/base/error.h"
#include "ulmus/cli/commands.h"

namespace ulmus::cli {

void add_refused_subcommand(CLI::App& command, const char* full_name, const char* name,
                            Invocation& invocation) {
  CLI::App* refused = command.add_subcommand(name);
  refused->group("");  // keeps it out of --help
  refused->allow_extras();
  refused->set_help_flag();
  refused->callback([full_name, &invocation] {
    invocation.run = [full_name]() -> int {
      fail_input("ulmus ", full_name, " is not built yet; ulmus --help lists what is");
    };
  });
}

void add_refused_commands(CLI::App& program, Invocation& invocation) {
  for (const char* name : {"plan", "serve", "doctor"}) {
    add_refused_subcommand(program, name, name, invocation);
  }
}

}  // namespace ulmus::cli
