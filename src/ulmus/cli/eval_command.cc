#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/cli/checkpoint_path.h"
#include "ulmus/cli/commands.h"
#include "ulmus/cli/output.h"
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

int run_eval(const EvalOptions& options) {
  check_json_target(options.json);
  const train::Config config = train::load_config(options.config, options.overrides);
  const std::unique_ptr<train::Reporter> reporter = train::make_terminal_reporter();
  const std::filesystem::path checkpoint = find_checkpoint(options.checkpoint);
  const train::EvalResult result = train::evaluate_checkpoint(config, checkpoint, *reporter);
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
  command->callback(
      [options, &invocation] { invocation.run = [options] { return run_eval(*options); }; });
}

}  // namespace ulmus::cli
