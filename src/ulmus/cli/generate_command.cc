#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/base/error.h"
#include "ulmus/cli/checkpoint_path.h"
#include "ulmus/cli/commands.h"
#include "ulmus/cli/output.h"
#include "ulmus/train/run.h"

namespace ulmus::cli {
namespace {

struct GenerateArguments {
  train::GenerateOptions options;
  std::string checkpoint;
  std::string tokenizer;
  std::string json;
};

/// The parser's own checks let NaN pass.
void check_sampling(const train::GenerateOptions& options) {
  if (!std::isfinite(options.temperature)) {
    fail_input("--temperature ", options.temperature, ": must be a finite number >= 0");
  }
  if (!(options.top_p > 0.0)) fail_input("--top-p ", options.top_p, ": must be > 0, <= 1");
}

int run_generate(const GenerateArguments& arguments) {
  check_sampling(arguments.options);
  check_json_target(arguments.json);
  train::GenerateOptions options = arguments.options;
  options.checkpoint = find_checkpoint(arguments.checkpoint);
  if (!arguments.tokenizer.empty()) options.tokenizer = arguments.tokenizer;
  const std::unique_ptr<train::Reporter> reporter = train::make_terminal_reporter();
  const std::string continuation = train::generate(options, *reporter);
  const nlohmann::json facts = {{"checkpoint", options.checkpoint.string()},
                                {"prompt", options.prompt},
                                {"text", continuation},
                                {"seed", options.seed}};
  // A byte-level model may stop inside a character.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  print_facts(options.prompt + continuation + "\n", facts.dump(2, ' ', false, kReplace),
              arguments.json);
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& program, Invocation& invocation) {
  const auto arguments = std::make_shared<GenerateArguments>();
  train::GenerateOptions& options = arguments->options;
  CLI::App* command = program.add_subcommand("generate", "Continues a text");
  command
      ->add_option("--checkpoint", arguments->checkpoint,
                   "A checkpoint's folder, or a run folder, whose newest is taken")
      ->required();
  command->add_option("--prompt", options.prompt, "The text to continue")->required();
  command->add_option("--tokens", options.tokens, "Tokens to add at most")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  command
      ->add_option("--temperature", options.temperature,
                   "Above 1 flatter, below 1 sharper, 0: always the likeliest token")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--top-p", options.top_p,
                   "Draws from the likeliest tokens that have this probability together")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Another seed, another text")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  command->add_option("--tokenizer", arguments->tokenizer,
                      "tokenizer.json, when it is not where the run's configuration says");
  command->add_option("--json", arguments->json, "Writes the facts as JSON; - is standard output");
  command->callback([arguments, &invocation] {
    invocation.run = [arguments] { return run_generate(*arguments); };
  });
}

}  // namespace ulmus::cli
