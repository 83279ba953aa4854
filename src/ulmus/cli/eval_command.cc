#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/cli/checkpoint_path.h"
#include "ulmus/cli/commands.h"
#include "ulmus/cli/on_ranks.h"
#include "ulmus/cli/output.h"
#include "ulmus/comm/agreement.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/run.h"

namespace ulmus::cli {
namespace {

struct EvalOptions {
  std::string config;
  std::string checkpoint;
  std::vector<std::string> overrides;
  std::string json;
};

int eval_on_rank(const train::Config& config, const EvalOptions& options, comm::World& world) {
  const std::unique_ptr<train::Reporter> reporter = make_reporter(world);
  std::filesystem::path checkpoint;
  comm::agree(world.all(), [&] { checkpoint = find_checkpoint(options.checkpoint); });
  const train::EvalResult result = train::evaluate_checkpoint(config, checkpoint, *reporter, world);
  if (!prints(world)) return 0;
  const std::string text = fmt::format(
      "loss {:.6f} nats a token, perplexity {:.4f}, {:.6f} bits a byte; {} tokens, {} bytes of "
      "text\n",
      result.loss, result.perplexity, result.bits_per_byte, grouped_digits(result.tokens),
      grouped_digits(result.text_bytes));
  const nlohmann::json facts = {
      {"checkpoint", checkpoint.string()},    {"tokens", result.tokens},
      {"text_bytes", result.text_bytes},      {"eval/loss", result.loss},
      {"eval/perplexity", result.perplexity}, {"eval/bits_per_byte", result.bits_per_byte}};
  print_facts(text, facts.dump(2), options.json);
  return 0;
}

int run_eval(const EvalOptions& options) {
  check_json_target(options.json);
  return run_on_ranks(options.config, options.overrides,
                      [&](const train::Config& config, comm::World& world) {
                        return eval_on_rank(config, options, world);
                      });
}

}  // namespace

void add_eval_command(CLI::App& program, Invocation& invocation) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* command =
      program.add_subcommand("eval", "Held-out loss, perplexity and bits a byte of a checkpoint");
  command->add_option("CONFIG", options->config, "Configuration, a TOML file")->required();
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "A checkpoint's folder, or a run folder, whose newest is taken")
      ->required();
  command->add_option("--set", options->overrides, "Sets a key: --set eval.tokens=0")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--json", options->json, "Writes the facts as JSON; - is standard output");
  command->callback([options, &invocation] {
    invocation.takes_ranks = true;
    invocation.run = [options] { return run_eval(*options); };
  });
}

}  // namespace ulmus::cli
