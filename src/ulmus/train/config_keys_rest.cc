#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

std::vector<double> read_weights(const ConfigValue& value) {
  std::vector<double> weights;
  for (const ConfigValue& item : read_array(value, "data.mix")) {
    weights.push_back(read_number(item, "data.mix", kAbove));
  }
  return weights;
}

std::string weights_text(const std::vector<double>& weights) {
  std::string text;
  for (const double weight : weights) {
    text += (text.empty() ? "" : ", ") + to_toml_text(weight);
  }
  return text.empty() ? text : "[" + text + "]";
}

std::vector<std::int64_t> read_steps(const ConfigValue& value) {
  std::vector<std::int64_t> steps;
  for (const ConfigValue& item : read_array(value, "run.trace")) {
    steps.push_back(read_integer(item, "run.trace", {.min = 1, .max = kMaxSteps}));
  }
  return steps;
}

std::string steps_text(const std::vector<std::int64_t>& steps) {
  return steps.empty() ? std::string() : fmt::format("[{}]", fmt::join(steps, ", "));
}

void add_batch_keys(KeyTable& table) {
  table.add_integer(
      "batch.tokens", [](auto& c) -> auto& { return c.batch.tokens; },
      {.min = 1, .max = kMaxBatchTokens},
      {.meaning = "tokens of a whole step; a multiple of data.sequence_length", .required = true});
  table.add_integer(
      "batch.micro_sequences", [](auto& c) -> auto& { return c.batch.micro_sequences; }, kPositive,
      {.meaning = "sequences that pass through the model at once", .on_resume = OnResume::kScoped});
}

void add_precision_keys(KeyTable& table) {
  table.add_choice<Compute>("precision.compute", [](auto& c) -> auto& { return c.compute; },
                            {{"fp32", Compute::kFp32}, {"fp64", Compute::kFp64}}, {"bf16", "mxfp8"},
                            {.meaning = "type of weights and activations; fp64 runs on the slow "
                                        "kernels of the tests"});
  table.add_fixed_choice("precision.exchange", {"bf16", "mxfp8"}, "fp32",
                         {.meaning = "type of token rows between ranks"});
  table.add_fixed_choice("precision.saved_activations", {"bf16", "mxfp8"}, "fp32",
                         {.meaning = "type of what forward keeps for backward"});
  table.add_fixed_choice("precision.scale_rule", {"floor"}, "ceil",
                         {.meaning = "rounding of MXFP8 scales"});
}

void add_memory_keys(KeyTable& table) {
  table.add_fixed("memory.recompute",
                  "\"none\", \"block\", \"attention\", \"experts\", \"activations\", \"auto\" "
                  "or array of layers",
                  "\"none\"",
                  {.meaning = "what backward computes again instead of keeping it",
                   .on_resume = OnResume::kMay});
  table.add_number(
      "memory.budget_gib", [](auto& c) -> auto& { return c.memory.budget_gib; }, kAtLeast,
      {.meaning = "memory that a rank may take, GiB; 0: its share of what is free at start",
       .on_resume = OnResume::kMay});
  table.add_integer("memory.head_chunk", [](auto& c) -> auto& { return c.memory.head_chunk; },
                    kPositive,
                    {.meaning = "rows of logits that exist at once", .on_resume = OnResume::kMay});
}

void add_checkpoint_keys(KeyTable& table) {
  table.add_integer(
      "checkpoint.every", [](auto& c) -> auto& { return c.checkpoint.every; }, kNotNegative,
      {.meaning = "steps between checkpoints; 0: only at the end", .on_resume = OnResume::kMay});
  table.add_integer("checkpoint.keep", [](auto& c) -> auto& { return c.checkpoint.keep; },
                    kPositive,
                    {.meaning = "newest checkpoints that stay", .on_resume = OnResume::kMay});
  table.add_boolean("checkpoint.async", [](auto& c) -> auto& { return c.checkpoint.async; },
                    {.meaning = "write checkpoints behind training, from a copy in memory",
                     .on_resume = OnResume::kMay});
  table.add_string("checkpoint.load", [](auto& c) -> auto& { return c.checkpoint.load; },
                   {.meaning = "checkpoint whose weights start the run; not read when run.dir "
                               "already has a checkpoint",
                    .on_resume = OnResume::kMay,
                    .default_note = "not set"});
  table.add_boolean("checkpoint.load_optimizer",
                    [](auto& c) -> auto& { return c.checkpoint.load_optimizer; },
                    {.meaning = "take the optimizer's state from checkpoint.load, too",
                     .on_resume = OnResume::kMay});
}

void add_eval_keys(KeyTable& table) {
  table.add_integer(
      "eval.every", [](auto& c) -> auto& { return c.eval.every; }, kNotNegative,
      {.meaning = "steps between evaluations; 0: only at the end", .on_resume = OnResume::kMay});
  table.add_integer(
      "eval.tokens", [](auto& c) -> auto& { return c.eval.tokens; }, kNotNegative,
      {.meaning = "held-out tokens of an evaluation at most; 0: all", .on_resume = OnResume::kMay});
}

}  // namespace

void add_run_keys(KeyTable& table) {
  constexpr OnResume kMay = OnResume::kMay;
  table.add_string("run.dir", [](auto& c) -> auto& { return c.run.dir; },
                   {.meaning = "run folder", .on_resume = kMay});
  table.add_string("run.name", [](auto& c) -> auto& { return c.run.name; },
                   {.meaning = "name in logs and checkpoints",
                    .on_resume = kMay,
                    .default_note = "the last part of run.dir"});
  table.add_integer("run.seed", [](auto& c) -> auto& { return c.run.seed; }, kNotNegative,
                    {.meaning = "of initial weights, data order and every other draw"});
  table.add_choice<LogLevel>("run.log_level", [](auto& c) -> auto& { return c.run.log_level; },
                             {{"debug", LogLevel::kDebug},
                              {"info", LogLevel::kInfo},
                              {"warning", LogLevel::kWarning},
                              {"error", LogLevel::kError}},
                             {},
                             {.meaning = "what the log file keeps: every step's progress, all that "
                                         "the run tells, warnings, only errors",
                              .on_resume = kMay});
  table.add_integer("run.log_every", [](auto& c) -> auto& { return c.run.log_every; }, kPositive,
                    {.meaning = "steps between lines of metrics.jsonl", .on_resume = kMay});
  table.add_optional_integer("run.max_steps", [](auto& c) -> auto& { return c.run.max_steps; },
                             {.min = 0, .max = kMaxSteps},
                             {.meaning = "the run ends after so many steps; 0: only the initial "
                                         "checkpoint is written",
                              .on_resume = kMay,
                              .default_note = "this or max_tokens is required"});
  table.add_optional_integer("run.max_tokens", [](auto& c) -> auto& { return c.run.max_tokens; },
                             {.min = 1, .max = kMaxTokens},
                             {.meaning = "the run ends with the step that reaches so many tokens",
                              .on_resume = kMay,
                              .default_note = "this or max_steps is required"});
  table.add_number(
      "run.timeout_s", [](auto& c) -> auto& { return c.run.timeout_s; }, {.min = 0.1, .max = 1e6},
      {.meaning = "seconds that a rank waits for another before the run fails", .on_resume = kMay});
  table.add(
      "run.trace", "array of integers >= 1",
      {.meaning =
           "steps that trace.json records: what every rank computed and waited for, and what "
           "went between them",
       .on_resume = kMay,
       .default_note = "[]"},
      [](Config& config, const ConfigValue& value) { config.run.trace = read_steps(value); },
      [](const Config& config) { return steps_text(config.run.trace); });
}

void add_data_keys(KeyTable& table) {
  table.add_string("data.tokenizer", [](auto& c) -> auto& { return c.data.tokenizer; },
                   {.meaning = "the tokenizer.json of the token files",
                    .on_resume = OnResume::kMay,
                    .default_note = "not set"});
  table.add_paths("data.train", [](auto& c) -> auto& { return c.data.train; },
                  {.meaning = "token files to train on; on resume the same ones, wherever they lie",
                   .on_resume = OnResume::kMay,
                   .default_note = "required unless run.max_steps = 0"});
  table.add_paths(
      "data.eval", [](auto& c) -> auto& { return c.data.eval; },
      {.meaning = "held-out token files", .on_resume = OnResume::kMay, .default_note = "not set"});
  table.add_integer("data.sequence_length", [](auto& c) -> auto& { return c.data.sequence_length; },
                    {.min = 1, .max = std::int64_t{1} << 24},
                    {.meaning = "tokens of a training sequence", .required = true});
  table.add_choice<std::string>("data.packing", [](auto& c) -> auto& { return c.data.packing; },
                                {{"chunk", "chunk"}, {"documents", "documents"}}, {},
                                {.meaning = "fixed-length chunks, or whole documents packed "
                                            "together that do not see each other"});
  table.add(
      "data.mix", "array of numbers > 0",
      {.meaning = "how often each of data.train is drawn, in proportion",
       .default_note = "by size"},
      [](Config& config, const ConfigValue& value) { config.data.mix = read_weights(value); },
      [](const Config& config) { return weights_text(config.data.mix); });
}

void add_parallel_keys(KeyTable& table) {
  constexpr OnResume kMay = OnResume::kMay;
  table.add_fixed_integer("parallel.pipeline", kPositive, 1,
                          {.meaning = "pipeline ranks", .on_resume = kMay});
  table.add_fixed_integer("parallel.stages_per_rank", kPositive, 1,
                          {.meaning = "pipeline stages of a rank", .on_resume = kMay});
  table.add_fixed_choice("parallel.schedule", {"loop", "v", "zero_bubble"}, "1f1b",
                         {.meaning = "order of the pipeline's work", .on_resume = kMay});
  table.add_integer("parallel.expert", [](auto& c) -> auto& { return c.parallel.expert; },
                    kPositive,
                    {.meaning = "ranks that share the experts; divides the ranks and moe.experts",
                     .on_resume = kMay});
  table.add_fixed_integer("parallel.context", kPositive, 1,
                          {.meaning = "ranks that share a sequence", .on_resume = kMay});
  table.add_choice<Params>(
      "parallel.params", [](auto& c) -> auto& { return c.parallel.params; },
      {{"resident", Params::kResident}, {"resharded", Params::kResharded}}, {},
      {.meaning = "weights stay on their rank, or are gathered for each use", .on_resume = kMay});
  table.add_choice<parallel::Reshard>(
      "parallel.reshard", [](auto& c) -> auto& { return c.parallel.reshard; },
      {{"micro_batch", parallel::Reshard::kMicroBatch}, {"step", parallel::Reshard::kStep}}, {},
      {.meaning = "how long gathered weights stay", .on_resume = kMay});
  table.add_boolean("parallel.prefetch", [](auto& c) -> auto& { return c.parallel.prefetch; },
                    {.meaning = "gather the next block's weights early", .on_resume = kMay});
  table.add_fixed("parallel.split", "array of layers", "[]",
                  {.meaning = "first layer of each stage", .on_resume = kMay});
  table.add_fixed_integer(
      "parallel.activation_cap", kNotNegative, 0,
      {.meaning = "micro-batches in flight on a rank at most; 0: the schedule's",
       .on_resume = kMay});
  table.add_optional_choice<Exchange>(
      "parallel.exchange", [](auto& c) -> auto& { return c.parallel.exchange; },
      {{"all_to_all", Exchange::kAllToAll}, {"local", Exchange::kLocal}}, {"rowwise"},
      {.meaning = "how token rows travel to experts; local needs parallel.expert = 1",
       .on_resume = kMay,
       .default_note = "local where parallel.expert = 1, else all_to_all"});
}

void add_machine_keys(KeyTable& table) {
  add_batch_keys(table);
  add_precision_keys(table);
  add_memory_keys(table);
  add_checkpoint_keys(table);
  add_eval_keys(table);
  table.add_fixed_choice("device.kind", {"cuda"}, "cpu",
                         {.meaning = "where the run computes", .on_resume = OnResume::kMay});
  table.add_integer("device.threads", [](auto& c) -> auto& { return c.device.threads; },
                    {.min = 0, .max = 4096},
                    {.meaning = "threads of a rank; 0: the machine's cores divided by its ranks",
                     .on_resume = OnResume::kMay});
}

}  // namespace ulmus::train
