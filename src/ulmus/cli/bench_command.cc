#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "ulmus/base/error.h"
#include "ulmus/cli/bench.h"
#include "ulmus/cli/commands.h"
#include "ulmus/cli/on_ranks.h"
#include "ulmus/cli/output.h"

namespace ulmus::cli {
namespace {

/// The measurements of the interface that are not built.
const std::vector<std::string>& planned_benches() {
  static const std::vector<std::string> kNames = {
      "experts",  "grouped",   "residency", "exchange", "skew",
      "pipeline", "precision", "recompute", "overlap",  "operand-values"};
  return kNames;
}

std::vector<std::string> built_names() {
  std::vector<std::string> names;
  for (const Bench& bench : benches()) {
    names.emplace_back(bench.name);
  }
  return names;
}

std::string list_text() {
  std::string text;
  for (const Bench& bench : benches()) {
    text += std::string(bench.name) + "  " + std::string(bench.answers) + "\n";
  }
  return text;
}

int run_bench(const BenchOptions& options) {
  if (options.lists) {
    print_result(list_text());
    return 0;
  }
  check_json_target(options.json);
  for (const Bench& bench : benches()) {
    if (bench.name != options.name) continue;
    if (!bench.takes_ranks) refuse_ranks();
    return bench.run(options);
  }
  std::string built;
  for (const std::string& name : built_names()) {
    built += (built.empty() ? "" : ", ") + name;
  }
  const auto& planned = planned_benches();
  if (std::find(planned.begin(), planned.end(), options.name) != planned.end()) {
    fail_input("ulmus bench ", options.name, " is not built yet; built: ", built);
  }
  const std::string near = nearest_name(options.name, built_names());
  fail_input("ulmus bench ", options.name, ": there is no such measurement; built: ", built,
             near.empty() ? "" : "; did you mean " + near + "?");
}

}  // namespace

void add_bench_command(CLI::App& program, Invocation& invocation) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = program.add_subcommand("bench", "Measurements");
  CLI::Option* name = command->add_option("NAME", options->name, "Which one; see --list");
  command->add_option("CONFIG", options->config,
                      "Configuration, a TOML file, for: checkpoint, step");
  command->add_option("--set", options->overrides, "Sets a key: --set moe.top_k=2; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option* list = command->add_flag("--list", options->lists, "The measurements there are");
  command->add_option("--repetitions", options->repetitions, "Of everything that is timed")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: all that the process may use")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--json", options->json, "Writes the facts as JSON; - is standard output");
  command->callback([options, name, list, &invocation] {
    if (name->empty() && list->empty()) throw CLI::RequiredError("NAME");
    invocation.takes_ranks = true;  // each measurement says for itself
    invocation.run = [options] { return run_bench(*options); };
  });
}

}  // namespace ulmus::cli
