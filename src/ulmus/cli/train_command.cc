#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/cli/commands.h"
#include "ulmus/cli/on_ranks.h"
#include "ulmus/cli/output.h"
#include "ulmus/cli/signals.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/run.h"

namespace ulmus::cli {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string json;
  bool is_dry_run = false;
  bool prints_keys = false;
};

std::string dry_run_text(const train::DryRun& facts) {
  std::string text =
      fmt::format("parameters {} in all, {} active for each token\n",
                  grouped_digits(facts.parameters.total), grouped_digits(facts.parameters.active));
  text += fmt::format("useful work {:.3f} MFLOP a token, forward and backward\n",
                      facts.useful_flops_per_token * 1e-6);
  text += fmt::format("steps {}, micro-batches a step {}\n", grouped_digits(facts.steps),
                      grouped_digits(facts.micro_batches));
  text += fmt::format("layout {}, {} threads a rank, device cpu\n\n", facts.layout.text(),
                      facts.threads);
  TextTable table({facts.layout.ranks == 1 ? "memory" : "memory of rank 0", "bytes", ""});
  for (const auto& [name, bytes] : facts.memory.lines())
    table.add_row({std::string(name), grouped_digits(bytes), bytes_text(bytes)});
  table.add_row(
      {"all", grouped_digits(facts.memory.total_bytes()), bytes_text(facts.memory.total_bytes())});
  return text + table.text();
}

nlohmann::json dry_run_json(const train::DryRun& facts, const std::string& config) {
  nlohmann::json memory;
  for (const auto& [name, bytes] : facts.memory.lines())
    memory[std::string(name) + "_bytes"] = bytes;
  memory["total_bytes"] = facts.memory.total_bytes();
  return {{"config", config},
          {"total_params", facts.parameters.total},
          {"active_params", facts.parameters.active},
          {"useful_flops_per_token", facts.useful_flops_per_token},
          {"steps", facts.steps},
          {"micro_batches", facts.micro_batches},
          {"ranks", facts.layout.ranks},
          {"layout", facts.layout.text()},
          {"threads", facts.threads},
          {"memory", memory}};
}

int show_dry_run(const train::Config& config, const std::string& json, comm::World& world) {
  const std::string resolved = train::to_toml(config);
  const train::DryRun facts = train::dry_run(config, world);
  if (!prints(world)) return 0;
  print_facts(resolved + "\n" + dry_run_text(facts), dry_run_json(facts, resolved).dump(2), json);
  return 0;
}

int train_on_rank(const train::Config& config, const std::string& json, comm::World& world) {
  train::StopFlag stop;
  const SignalScope signals(stop);
  const std::unique_ptr<train::Reporter> reporter = make_reporter(world);
  const train::TrainResult result = train::run_training(config, stop, *reporter, world);
  if (prints(world)) {
    const nlohmann::json facts = {{"step", result.step},
                                  {"tokens", result.tokens},
                                  {"signal", result.signal},
                                  {"checkpoint", result.checkpoint.string()}};
    print_facts(fmt::format("step {}, {} tokens, checkpoint {}\n", result.step,
                            grouped_digits(result.tokens), result.checkpoint.string()),
                facts.dump(2), json);
  }
  return result.signal == 0 ? 0 : exit_status_of_signal(result.signal);
}

int run_train(const TrainOptions& options) {
  if (options.prints_keys) {
    print_result(train::key_reference());
    return 0;
  }
  check_json_target(options.json);
  return run_on_ranks(options.config, options.overrides,
                      [&](const train::Config& config, comm::World& world) {
                        return options.is_dry_run ? show_dry_run(config, options.json, world)
                                                  : train_on_rank(config, options.json, world);
                      });
}

}  // namespace

void add_train_command(CLI::App& program, Invocation& invocation) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command = program.add_subcommand(
      "train", "Trains; continues from the newest checkpoint in run.dir if there is one");
  CLI::Option* config =
      command->add_option("CONFIG", options->config, "Configuration, a TOML file");
  command->add_option("--set", options->overrides, "Sets a key: --set moe.top_k=4; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--dry-run", options->is_dry_run,
                    "Prints resolved configuration, parameters, memory and layout, and stops");
  command->add_option("--json", options->json, "Writes the facts as JSON; - is standard output");
  CLI::Option* keys = command->add_flag("--print-keys", options->prints_keys,
                                        "Prints every key of a configuration, and stops");
  command->callback([options, config, keys, &invocation] {
    if (config->empty() && keys->empty()) throw CLI::RequiredError("CONFIG");
    invocation.takes_ranks = true;
    invocation.run = [options] { return run_train(*options); };
  });
}

}  // namespace ulmus::cli
