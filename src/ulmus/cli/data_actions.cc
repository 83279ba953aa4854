#include "ulmus/cli/data_actions.h"
#include "ulmus/base/strict_json.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "ulmus/base/error.h"
#include "ulmus/base/thread_pool.h"
#include "ulmus/cli/output.h"
#include "ulmus/data/baseline.h"
#include "ulmus/data/tokenize.h"
#include "ulmus/device/device.h"

namespace ulmus::cli {
namespace {

using Path = std::filesystem::path;

int threads_of(const DataOptions& options) {
  return options.threads > 0 ? options.threads : available_threads();
}

data::InputFiles inputs_of(const DataOptions& options) {
  const std::vector<Path> paths(options.inputs.begin(), options.inputs.end());
  data::InputFiles inputs = data::find_inputs(paths);
  if (inputs.num_ignored > 0) {
    print_note(
        fmt::format("{} files that are neither .txt nor .jsonl are left out", inputs.num_ignored));
  }
  return inputs;
}

/// One line that is overwritten on a terminal, nothing elsewhere.
data::Progress progress_line() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [](std::int64_t bytes_read, std::int64_t bytes_total) {
    print_progress(fmt::format("\r\x1b[2K{} of {}{}", bytes_text(bytes_read),
                               bytes_text(bytes_total), bytes_read == bytes_total ? "\n" : ""));
    std::fflush(stderr);
  };
}

/// The vocabulary that bounds the ids of a file: its manifest's, or --vocab-size.
int vocab_size_of(const data::TokenFile& file, const DataOptions& options) {
  if (const auto& tokenizer = file.tokenizer()) return tokenizer->vocab_size;
  if (options.vocab_size > 0) return options.vocab_size;
  fail_input(file.path().string(), ": has no manifest; give --vocab-size");
}

data::TokenFile open_tokens(const std::string& path, const DataOptions& options) {
  data::TokenFileOptions open;
  if (!options.type.empty()) {
    open.type = options.type == "uint16" ? data::TokenType::kUint16 : data::TokenType::kUint32;
  }
  return data::TokenFile::open(path, open);
}

nlohmann::json score_json(const data::BaselineScore& score) {
  nlohmann::json facts = {{"nats_per_token", score.nats_per_token}};
  if (score.bits_per_byte) facts["bits_per_byte"] = *score.bits_per_byte;
  return facts;
}

/// What counting alone predicts of the held-out tokens.
std::string add_baselines(const std::shared_ptr<const data::TokenFile>& train, int vocab_size,
                          const DataOptions& options, ThreadPool& pool, nlohmann::json& facts) {
  const auto held_out =
      std::make_shared<const data::TokenFile>(open_tokens(options.held_out, options));
  held_out->verify_ids(vocab_size, 0, held_out->num_tokens(), pool);
  const data::BaselineReport report = data::score_baselines({train}, {held_out}, vocab_size);
  facts["held_out"] = {{"tokens_file", options.held_out},
                       {"counted_tokens", report.num_train_tokens},
                       {"predicted_tokens", report.num_eval_tokens},
                       {"own_entropy", score_json(report.own_entropy)},
                       {"unigram", score_json(report.unigram)},
                       {"bigram", score_json(report.bigram)}};
  TextTable table({"model of " + options.tokens, "nats/token", "bits/byte"});
  const auto add_row = [&](const char* name, const data::BaselineScore& score) {
    table.add_row({name, fmt::format("{:.4f}", score.nats_per_token),
                   score.bits_per_byte ? fmt::format("{:.4f}", *score.bits_per_byte) : "-"});
  };
  add_row("entropy of the held-out tokens' own frequencies", report.own_entropy);
  add_row("unigram", report.unigram);
  add_row("interpolated bigram", report.bigram);
  return fmt::format("\nheld out: {}, {} tokens predicted from {} counted\n{}", options.held_out,
                     grouped_digits(report.num_eval_tokens),
                     grouped_digits(report.num_train_tokens), table.text());
}

}  // namespace

int train_tokenizer(const DataOptions& options) {
  check_json_target(options.json);
  std::error_code error;
  if (!options.overwrites && std::filesystem::exists(options.output, error)) {
    fail_input("--output ", options.output, " exists; choose another name or give --overwrite");
  }
  ThreadPool pool(threads_of(options));
  const data::WordCounts counts = data::count_words(inputs_of(options), pool, progress_line());
  data::BpeTrainerOptions train;
  train.vocab_size = options.vocab;
  train.min_count = options.min_count;
  const data::Tokenizer tokenizer = data::train_bpe(counts, train);
  tokenizer.save(options.output);
  if (counts.num_left_out() > 0) {
    print_note(fmt::format("{} words above {} bytes had no part in the training",
                           counts.num_left_out(), data::WordCounts::kLongestWordBytes));
  }
  const nlohmann::json facts = {{"tokenizer", options.output},
                                {"vocab_size", tokenizer.vocab_size()},
                                {"text_bytes", counts.num_text_bytes()},
                                {"distinct_words", counts.num_words()},
                                {"words_left_out", counts.num_left_out()},
                                {"fingerprint", hash_text(tokenizer.fingerprint())}};
  print_facts(fmt::format("{}: {} tokens, from {} of text with {} distinct words\n", options.output,
                          grouped_digits(tokenizer.vocab_size()),
                          bytes_text(counts.num_text_bytes()), grouped_digits(counts.num_words())),
              facts.dump(2), options.json);
  return 0;
}

int tokenize_texts(const DataOptions& options) {
  check_json_target(options.json);
  const data::Tokenizer tokenizer = data::Tokenizer::load(options.tokenizer);
  ThreadPool pool(threads_of(options));
  const data::TokenizeOptions tokenize{
      .folder = options.output,
      .stem = options.name,
      .overwrite = options.overwrites ? data::Overwrite::kYes : data::Overwrite::kNo,
      .progress = progress_line()};
  const data::TokenizeReport report = data::tokenize(inputs_of(options), tokenizer, tokenize, pool);
  const data::TokenFileEntry& entry = report.entry;
  const std::string path = (Path(options.output) / entry.name).string();
  const double bytes_per_token =
      static_cast<double>(entry.text_bytes) / static_cast<double>(entry.num_tokens);
  if (report.num_empty_documents > 0) {
    print_note(fmt::format("{} documents without text are left out", report.num_empty_documents));
  }
  const nlohmann::json facts = {{"tokens_file", path},
                                {"tokens", entry.num_tokens},
                                {"documents", entry.num_documents},
                                {"text_bytes", entry.text_bytes},
                                {"bytes_per_token", bytes_per_token},
                                {"type", data::token_type_name(entry.type)},
                                {"files", report.num_files},
                                {"ignored_files", report.num_ignored_files},
                                {"empty_documents", report.num_empty_documents},
                                {"hash", hash_text(entry.hash)}};
  print_facts(fmt::format("{}: {} tokens in {} documents from {} files, {:.3f} bytes a token\n",
                          path, grouped_digits(entry.num_tokens),
                          grouped_digits(entry.num_documents), report.num_files, bytes_per_token),
              facts.dump(2), options.json);
  return 0;
}

int show_tokens(const DataOptions& options) {
  check_json_target(options.json);
  const auto shared_file =
      std::make_shared<const data::TokenFile>(open_tokens(options.tokens, options));
  const data::TokenFile& file = *shared_file;
  ThreadPool pool(threads_of(options));
  const int vocab_size = vocab_size_of(file, options);
  const data::TokenFileSummary summary = data::summarise(file, vocab_size, pool);
  nlohmann::json facts = {{"tokens_file", options.tokens},
                          {"tokens", summary.num_tokens},
                          {"documents", summary.num_documents},
                          {"shortest_document", summary.shortest_document},
                          {"median_document", summary.median_document},
                          {"longest_document", summary.longest_document},
                          {"vocab_size", vocab_size},
                          {"distinct_ids", summary.num_distinct_ids},
                          {"largest_id", summary.largest_id},
                          {"type", data::token_type_name(file.type())}};
  std::string text = fmt::format(
      "{}\n{} tokens ({}), {} documents of {} / {} / {} tokens (shortest, median, longest)\n"
      "{} of {} ids occur, the largest is {}\n",
      options.tokens, grouped_digits(summary.num_tokens), data::token_type_name(file.type()),
      grouped_digits(summary.num_documents), grouped_digits(summary.shortest_document),
      grouped_digits(summary.median_document), grouped_digits(summary.longest_document),
      grouped_digits(summary.num_distinct_ids), grouped_digits(vocab_size), summary.largest_id);
  if (const auto text_bytes = file.text_bytes()) {
    facts["text_bytes"] = *text_bytes;
    text += fmt::format("{} bytes of text, {:.3f} a token\n", grouped_digits(*text_bytes),
                        static_cast<double>(*text_bytes) / static_cast<double>(file.num_tokens()));
  }
  if (!options.held_out.empty()) {
    text += add_baselines(shared_file, vocab_size, options, pool, facts);
  }
  print_facts(text, facts.dump(2), options.json);
  return 0;
}

int verify_tokens(const DataOptions& options) {
  check_json_target(options.json);
  std::optional<data::Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = data::Tokenizer::load(options.tokenizer);
  ThreadPool pool(threads_of(options));
  const data::FolderVerdict verdict =
      data::verify_folder(options.tokens, tokenizer ? &*tokenizer : nullptr, pool);
  nlohmann::json files = nlohmann::json::array();
  std::string text;
  std::string problems;
  for (const data::FileVerdict& file : verdict.files) {
    files.push_back({{"name", file.name}, {"problem", file.problem}});
    text += file.name + ": " + (file.problem.empty() ? "good" : "damaged") + "\n";
    if (!file.problem.empty()) problems += "\n  " + file.name + ": " + file.problem;
  }
  const nlohmann::json facts = {
      {"folder", options.tokens}, {"good", verdict.good()}, {"files", files}};
  print_facts(text, facts.dump(2), options.json);
  if (verdict.good()) return 0;
  finish_output();
  throw DifferenceError(options.tokens + " has damaged files:" + problems);
}

}  // namespace ulmus::cli
