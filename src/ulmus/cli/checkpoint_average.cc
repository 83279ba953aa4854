#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/checkpoint/average.h"
#include "ulmus/cli/checkpoint_path.h"
#include "ulmus/cli/commands.h"
#include "ulmus/cli/output.h"

namespace ulmus::cli {
namespace {

struct AverageOptions {
  std::vector<std::string> dirs;
  std::string output;
  std::string json;
};

int run_average(const AverageOptions& options) {
  check_json_target(options.json);
  std::vector<std::filesystem::path> checkpoints;
  std::vector<std::string> names;
  for (const std::string& dir : options.dirs) {
    checkpoints.push_back(find_checkpoint(dir));
    names.push_back(checkpoints.back().string());
  }
  const std::string now = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  const checkpoint::AverageReport report =
      checkpoint::average(checkpoints, options.output, {{"time", now}});
  const std::string text = fmt::format(
      "{}: mean of {} checkpoints, step {} of the last; {} elements in {} tensors, {}\n"
      "it has no optimizer state: to train on from it give checkpoint.load_optimizer=false\n",
      report.path.string(), checkpoints.size(), report.step, grouped_digits(report.elements),
      report.tensors, bytes_text(report.bytes));
  const nlohmann::json facts = {{"checkpoint", report.path.string()},
                                {"averaged", names},
                                {"step", report.step},
                                {"tokens", report.tokens},
                                {"tensors", report.tensors},
                                {"elements", report.elements},
                                {"bytes", report.bytes}};
  print_facts(text, facts.dump(2), options.json);
  return 0;
}

}  // namespace

void add_checkpoint_average(CLI::App& command, Invocation& invocation) {
  const auto options = std::make_shared<AverageOptions>();
  CLI::App* action = command.add_subcommand("average", "The mean of the weights of checkpoints");
  action
      ->add_option("DIR", options->dirs,
                   "Two or more: a checkpoint's folder, or a run folder, whose newest is taken")
      ->required();
  action
      ->add_option("--output", options->output,
                   "The new checkpoint's folder; in a run's checkpoints folder `ulmus generate` "
                   "finds model and tokenizer")
      ->required();
  action->add_option("--json", options->json, "Writes the facts as JSON; - is standard output");
  action->callback(
      [options, &invocation] { invocation.run = [options] { return run_average(*options); }; });
}

}  // namespace ulmus::cli
