#include <CLI/CLI.hpp>
#include <memory>

#include "ulmus/cli/commands.h"
#include "ulmus/cli/data_actions.h"

namespace ulmus::cli {
namespace {

void add_common(CLI::App& action, const std::shared_ptr<DataOptions>& options) {
  action.add_option("--threads", options->threads, "Threads; 0: all that the process may use")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  action.add_option("--json", options->json, "Writes the facts as JSON; - is standard output");
}

void add_tokenizer_train(CLI::App& command, const std::shared_ptr<DataOptions>& options,
                         Invocation& invocation) {
  CLI::App* action =
      command.add_subcommand("tokenizer-train", "Trains a byte-level BPE tokenizer on texts");
  action
      ->add_option("INPUT", options->inputs,
                   "Texts: .txt, .jsonl (objects with a \"text\"), or folders of them")
      ->required();
  action->add_option("--output", options->output, "tokenizer.json to write")->required();
  action->add_flag("--overwrite", options->overwrites, "Replaces a file of that name");
  action->add_option("--vocab", options->vocab, "Tokens in the vocabulary at most")
      ->check(CLI::Range(257, 1 << 24))
      ->capture_default_str();
  action->add_option("--min-count", options->min_count, "A rarer pair is not merged")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  add_common(*action, options);
  action->callback(
      [options, &invocation] { invocation.run = [options] { return train_tokenizer(*options); }; });
}

void add_tokenize(CLI::App& command, const std::shared_ptr<DataOptions>& options,
                  Invocation& invocation) {
  CLI::App* action = command.add_subcommand("tokenize", "Texts to a token file with its index");
  action
      ->add_option("INPUT", options->inputs,
                   "Texts: .txt, .jsonl (objects with a \"text\"), or folders of them")
      ->required();
  action->add_option("--tokenizer", options->tokenizer, "tokenizer.json")->required();
  action->add_option("--output", options->output, "Folder that gets the files")->required();
  action->add_option("--name", options->name, "NAME.tokens and NAME.index are written")
      ->capture_default_str();
  action->add_flag("--overwrite", options->overwrites, "Replaces a token file of that name");
  add_common(*action, options);
  action->callback(
      [options, &invocation] { invocation.run = [options] { return tokenize_texts(*options); }; });
}

void add_show(CLI::App& command, const std::shared_ptr<DataOptions>& options,
              Invocation& invocation) {
  CLI::App* action = command.add_subcommand("show", "Facts about a token file");
  action->add_option("TOKENS", options->tokens, "A token file")->required();
  action->add_option("--held-out", options->held_out,
                     "Another token file: what unigram and bigram models of TOKENS need for it");
  action->add_option("--type", options->type, "Of a file without manifest")
      ->check(CLI::IsMember({"uint16", "uint32"}));
  action
      ->add_option("--vocab-size", options->vocab_size,
                   "Vocabulary of a file without manifest: ids must be below")
      ->check(CLI::Range(1, 1 << 30));
  add_common(*action, options);
  action->callback(
      [options, &invocation] { invocation.run = [options] { return show_tokens(*options); }; });
}

void add_verify(CLI::App& command, const std::shared_ptr<DataOptions>& options,
                Invocation& invocation) {
  CLI::App* action = command.add_subcommand(
      "verify", "A folder of token files against its manifest; exit status 3 when one differs");
  action->add_option("FOLDER", options->tokens, "The folder")->required();
  action->add_option("--tokenizer", options->tokenizer, "The files must be of this tokenizer.json");
  add_common(*action, options);
  action->callback(
      [options, &invocation] { invocation.run = [options] { return verify_tokens(*options); }; });
}

}  // namespace

void add_data_command(CLI::App& program, Invocation& invocation) {
  const auto options = std::make_shared<DataOptions>();
  CLI::App* command = program.add_subcommand("data", "Tokenizers and token files");
  command->require_subcommand(1);
  add_tokenizer_train(*command, options, invocation);
  add_tokenize(*command, options, invocation);
  add_show(*command, options, invocation);
  add_verify(*command, options, invocation);
}

}  // namespace ulmus::cli
