#include "ulmus/train/config.h"

#include <algorithm>
#include <limits>

#include "ulmus/base/error.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

void check_data(const Config& config) {
  const DataConfig& data = config.data;
  const bool trains = config.run.max_steps != 0;
  if (trains && data.train.empty()) {
    fail_input("data.train is missing: the token files to train on (array of paths)");
  }
  if (data.sequence_length < 1) {
    fail_input("data.sequence_length = ", data.sequence_length, ": must be >= 1");
  }
  if (data.packing != "chunk" && data.packing != "documents") {
    fail_input("data.packing = \"", data.packing, "\": must be one of chunk, documents");
  }
  if (data.mix.empty()) return;
  if (data.mix.size() != data.train.size()) {
    fail_input("data.mix has ", data.mix.size(), " weights, data.train has ", data.train.size(),
               " paths: give one weight for each path");
  }
}

void check_batch(const BatchConfig& batch, std::int64_t sequence_length) {
  if (batch.tokens < 1 || batch.tokens % sequence_length != 0) {
    fail_input("batch.tokens = ", batch.tokens,
               ": must be a positive multiple of data.sequence_length = ", sequence_length);
  }
  if (batch.micro_sequences < 1) {
    fail_input("batch.micro_sequences = ", batch.micro_sequences, ": must be >= 1");
  }
}

void check_length(const RunConfig& run) {
  if (!run.max_steps && !run.max_tokens) {
    fail_input("run.max_steps or run.max_tokens is missing: how long to train");
  }
}

/// Row indices of routes are 32-bit.
constexpr std::int64_t kMaxRoutes = std::numeric_limits<std::int32_t>::max();

void check_micro_batch(const Config& config, const optim::Plan& plan) {
  const std::int64_t micro = config.batch.micro_sequences;
  const std::int64_t step = config.run.max_steps == 0
                                ? config.batch.tokens / config.data.sequence_length
                                : plan.max_batch_sequences();
  if (micro > step) {
    fail_input("batch.micro_sequences = ", micro, ": a step has at most ", step,
               " sequences (batch.tokens / data.sequence_length)");
  }
  if (micro * config.data.sequence_length > kMaxRoutes / std::max(config.model.moe.top_k, 1)) {
    fail_input("batch.micro_sequences = ", micro, ": a micro-batch has more than ", kMaxRoutes,
               " routes (batch.micro_sequences * data.sequence_length * moe.top_k)");
  }
}

void check_phases(const Config& config) {
  const std::vector<optim::Phase>& phases = config.optim.phases;
  if (phases.empty()) fail_input("optim.lr is missing: the peak learning rate");
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (!(phases[i].lr > 0.0)) {
      fail_input(phases.size() == 1 ? "optim.lr" : concat("optim.phases[", i, "].lr"),
                 " is missing: the peak learning rate (number > 0)");
    }
  }
  // The plan's constructor checks each phase against batch and sequence length.
  const std::int64_t sequence = config.data.sequence_length;
  check_micro_batch(config, optim::Plan(phases, config.batch.tokens, sequence, config.run.max_steps,
                                        config.run.max_tokens));
  constexpr std::string_view kCure =
      " in all; leave the length of the last phase out to let it take the rest";
  if (const auto& max = config.run.max_steps) {
    const optim::Plan plan(phases, config.batch.tokens, sequence, max, std::nullopt);
    if (plan.num_steps() < *max) {
      fail_input("run.max_steps = ", *max, ", but optim.phases have ", plan.num_steps(), " steps",
                 kCure);
    }
  }
  if (const auto& max = config.run.max_tokens) {
    const optim::Plan plan(phases, config.batch.tokens, sequence, std::nullopt, max);
    const std::int64_t tokens = plan.data_position(plan.num_steps()) * sequence;
    if (tokens < *max) {
      fail_input("run.max_tokens = ", *max, ", but optim.phases have ", tokens, " tokens", kCure);
    }
  }
}

void check_edges(const Config& config) {
  if (!config.data.eval.empty() && config.data.tokenizer.empty()) {
    fail_input("data.tokenizer is missing: evaluation (data.eval) counts the bytes of its tokens");
  }
  if (config.eval.tokens > 0 && config.eval.tokens < config.data.sequence_length) {
    fail_input(
        "eval.tokens = ", config.eval.tokens,
        ": must be 0 (all) or at least data.sequence_length = ", config.data.sequence_length);
  }
  if (config.run.dir.empty()) fail_input("run.dir = \"\": must name a folder");
}

}  // namespace

void Config::validate() const {
  model.validate();
  check_length(run);
  check_data(*this);
  check_batch(batch, data.sequence_length);
  check_phases(*this);
  check_edges(*this);
  check_effects(*this);
}

}  // namespace ulmus::train
