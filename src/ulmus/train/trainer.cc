#include "ulmus/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ulmus/train/config_file.h"
#include "ulmus/train/memory.h"
#include "ulmus/train/token_data.h"

namespace ulmus::train {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds that the meter saw in the operations of the token exchange.
double exchange_seconds(const Meter& meter) {
  const auto& names = parallel::LocalExchange::kOperations;
  double sum = 0.0;
  for (const MeterEntry& entry : meter.entries()) {
    if (std::ranges::find(names, entry.operation) != names.end()) sum += entry.seconds;
  }
  return sum;
}

/// How the optimizer treats the parameters: a line for each group.
std::string groups_text(const nn::ParameterSet& parameters, const OptimConfig& config) {
  std::vector<std::string> names;
  std::vector<std::int64_t> elements;
  for (const nn::Parameter& parameter : parameters.all()) {
    names.push_back(parameter.name);
    elements.push_back(parameter.value.numel());
  }
  const auto groups = optim::assign_groups(names, config.groups, config.weight_decay);
  std::string text;
  for (const optim::GroupSummary& summary : optim::summarize(names, elements, groups)) {
    text += fmt::format("{}  {} tensors, {} elements: learning rate x {}, weight decay {} ({}{})",
                        text.empty() ? "" : "\n", summary.tensors, summary.elements,
                        summary.group.lr_scale, summary.group.weight_decay, summary.example,
                        summary.tensors > 1 ? ", ..." : "");
  }
  return text;
}

}  // namespace

optim::Plan make_plan(const Config& config) {
  return {config.optim.phases, config.batch.tokens, config.data.sequence_length,
          config.run.max_steps, config.run.max_tokens};
}

data::Loader make_training_loader(const Config& config, ThreadPool& pool) {
  std::vector<data::DataSource> sources;
  if (config.data.mix.empty()) {
    sources.push_back(
        {.name = "train", .files = open_token_files(config, "data.train", config.data.train)});
  } else {
    for (std::size_t i = 0; i < config.data.train.size(); ++i) {
      sources.push_back({.name = config.data.train[i].string(),
                         .files = open_token_files(config, "data.train", {config.data.train[i]}),
                         .weight = config.data.mix[i]});
    }
  }
  data::Loader loader(std::move(sources),
                      {.sequence_length = config.data.sequence_length,
                       .packing = data::parse_packing(config.data.packing, "data.packing"),
                       .leftover = data::Leftover::kDrop,
                       .order = data::Order::kShuffled,
                       .seed = config.run.seed});
  loader.verify_ids(static_cast<int>(config.model.vocab), pool);
  return loader;
}

Trainer::Trainer(const Config& config, const StopFlag& stop, Reporter& reporter)
    : config_(config),
      stop_(stop),
      folder_(config.run.dir),
      reporter_(reporter, folder_.log_path(), config.run.log_level),
      plan_(make_plan(config)),
      device_(make_device(config)) {
  // A run of no steps may do without training data.
  if (!config.data.train.empty()) {
    loader_ = std::make_unique<data::Loader>(make_training_loader(config, device_->pool()));
  }
  if (!config.data.eval.empty()) {
    evaluator_ = std::make_unique<Evaluator>(config, device_->pool());
  }
  memory_ = measure_memory(config, Purpose::kTrain, num_threads(config));
  flops_per_token_ = useful_flops_per_token(config);
  check_budget(config, memory_,
               "smaller batch.micro_sequences, data.sequence_length or memory.head_chunk help");
  runtime_ = std::make_unique<Runtime>(config, Purpose::kTrain, *device_, memory_);
  checkpointing_ = std::make_unique<Checkpointing>(config, *runtime_, identify_data(config));
  start();
}

void Trainer::start() {
  const auto newest = checkpoint::newest(checkpointing_->checkpoints_dir());
  if (newest) {
    position_ = checkpointing_->resume(newest->path);
    saved_step_ = position_.step;
    newest_checkpoint_ = newest->path;
    reporter_.info(fmt::format("continues from {} (step {} of {})", newest->path.string(),
                               position_.step, plan_.num_steps()));
  } else {
    runtime_->initialize_parameters();
    if (!config_.checkpoint.load.empty()) {
      const std::string differences =
          checkpointing_->load_weights(config_.checkpoint.load, config_.checkpoint.load_optimizer);
      reporter_.info("weights of " + config_.checkpoint.load.string());
      if (!differences.empty()) {
        reporter_.warning("the model differs from that of checkpoint.load: " + differences);
      }
    }
  }
  write_file_atomically(folder_.config_path(), to_toml(config_));
  metrics_ = std::make_unique<MetricsFile>(folder_.metrics_path(), position_.step);
  const auto counts =
      model::count_parameters(runtime_->language_model().parameters(), config_.model);
  reporter_.info(fmt::format("run {}: {} parameters ({} active a token), {}",
                             name_of_run(config_.run), counts.total, counts.active,
                             device_->description()));
  reporter_.info("optimizer\n" +
                 groups_text(runtime_->language_model().parameters(), config_.optim));
  reporter_.info("memory by class\n" + memory_text(memory_));
}

bool Trainer::is_due(std::int64_t every) const { return every > 0 && position_.step % every == 0; }

void Trainer::save() {
  newest_checkpoint_ = checkpointing_->save(position_);
  saved_step_ = position_.step;
}

TrainResult Trainer::run() try {
  if (plan_.num_steps() == 0 && saved_step_ < 0) save();
  if (position_.step < plan_.num_steps()) {
    prefetcher_ = std::make_unique<data::Prefetcher>(*loader_, plan_.max_batch_sequences());
    prefetcher_->request(position_.data_position, plan_.batch_sequences(position_.step));
    runtime_->meter().reset();
  }
  while (position_.step < plan_.num_steps() && stop_.signal.load() == 0)
    step();
  // A signal that comes after the last step stops nothing.
  const int signal = position_.step < plan_.num_steps() ? stop_.signal.load() : 0;
  if (saved_step_ != position_.step) save();
  report_load();
  if (signal == 0) check_end();
  reporter_.info(fmt::format("{} at step {}, checkpoint {}", signal == 0 ? "done" : "stopped",
                             position_.step, newest_checkpoint_.string()));
  return {.step = position_.step,
          .tokens = position_.tokens,
          .signal = signal,
          .checkpoint = newest_checkpoint_};
} catch (const std::exception& error) {
  reporter_.failed(error.what());
  throw;
}

/// A run whose last steps gave no finite numbers did not do what it was asked for.
void Trainer::check_end() {
  if (record_.gate.empty()) return;  // no step was taken
  const auto in_row =
      static_cast<std::int64_t>(record_.gate_field(ops::GateField::kNonfiniteInRow));
  if (in_row < std::min<std::int64_t>(2, plan_.num_steps())) return;
  fail("the last ", in_row,
       " steps were skipped: loss or gradient is not finite; the weights "
       "before them are in ",
       newest_checkpoint_.string());
}

/// The last step's expert load, layer by layer.
void Trainer::report_load() {
  if (record_.counts.empty()) return;
  std::string lines = "expert load of the last step, a bar for each expert (half height: the mean)";
  for (std::size_t layer = 0; layer < record_.counts.size(); ++layer) {
    lines += fmt::format(
        "\n  layer {:>2} {} max/mean {:.2f}", config_.model.dense_layers + static_cast<int>(layer),
        load_picture(record_.counts[layer]), load_facts(record_.counts[layer]).max_over_mean);
  }
  reporter_.info(lines);
}

/// One optimizer step.
void Trainer::step() {
  const auto begin = Clock::now();
  const data::HostBatch& batch = prefetcher_->wait();
  interval_.data_s += seconds_since(begin);
  const std::int64_t next = position_.step + 1;
  if (next < plan_.num_steps()) {
    prefetcher_->request(position_.data_position + batch.num_sequences,
                         plan_.batch_sequences(next));
  }
  const double lr = plan_.learning_rate(position_.step);
  runtime_->train_step(batch, position_.step, lr);
  record_ = runtime_->read_record();
  position_.step = next;
  position_.tokens += batch.num_sequences * batch.sequence_length;
  position_.data_position += batch.num_sequences;
  check_record(record_, batch.valid_tokens);
  const double step_s = seconds_since(begin);
  close_step(batch.num_sequences * batch.sequence_length, step_s);
  seconds_per_step_ = seconds_per_step_ == 0.0 ? step_s : 0.9 * seconds_per_step_ + 0.1 * step_s;
  const double tokens = static_cast<double>(batch.num_sequences * batch.sequence_length);
  if (evaluator_ && (is_due(config_.eval.every) || is_last())) evaluate();
  if (is_due(config_.run.log_every) || is_last() || eval_ || position_.step == 1) {
    log_step(record_, batch.valid_tokens, lr);
  }
  if (is_due(config_.checkpoint.every)) save();
  reporter_.progress(
      {.step = position_.step,
       .max_steps = plan_.num_steps(),
       .loss = record_.loss_ce,
       .tokens_per_s = tokens / seconds_per_step_,
       .useful_gflops = tokens / seconds_per_step_ * flops_per_token_ / 1e9,
       .seconds_left = seconds_per_step_ * static_cast<double>(plan_.num_steps() - position_.step),
       .max_over_mean = worst_max_over_mean(record_)});
}

/// Adds a step to the interval. Evaluation and saving do not belong to any.
void Trainer::close_step(std::int64_t tokens, double step_s) {
  Meter& meter = runtime_->meter();
  ++interval_.steps;
  interval_.tokens += tokens;
  interval_.elapsed_s += step_s;
  interval_.exchange_s += exchange_seconds(meter);
  interval_.useful_flops += meter.useful_flops();
  meter.reset();
}

void Trainer::evaluate() {
  eval_ = evaluator_->run(*runtime_);
  runtime_->meter().reset();
}

/// Laws 8 and 9: every route is accounted for, and a step without finite numbers is named.
void Trainer::check_record(const model::StepRecord::Host& record, std::int64_t valid_tokens) {
  for (std::size_t layer = 0; layer < record.counts.size(); ++layer) {
    const std::int64_t requested =
        std::accumulate(record.counts[layer].begin(), record.counts[layer].end(), std::int64_t{0});
    ULMUS_CHECK(requested == valid_tokens * config_.model.moe.top_k, "step ", position_.step,
                ", layer ", config_.model.dense_layers + static_cast<int>(layer), ": ", requested,
                " routes of ", valid_tokens, " tokens");
  }
  const auto reason =
      static_cast<ops::GateReason>(static_cast<int>(record.gate_field(ops::GateField::kReason)));
  if (reason == ops::GateReason::kNonfinite) report_nonfinite(record);
  if (reason == ops::GateReason::kSkipLoss || reason == ops::GateReason::kSkipNorm) {
    reporter_.warning(fmt::format(
        "step {} skipped: {} stands out (loss {:.4f}, gradient norm {:.4g})", position_.step,
        reason == ops::GateReason::kSkipLoss ? "the loss" : "the gradient norm", record.loss_ce,
        record.gate_field(ops::GateField::kNorm)));
  }
}

void Trainer::report_nonfinite(const model::StepRecord::Host& record) {
  const auto bad = static_cast<std::int64_t>(record.gate_field(ops::GateField::kBadTensor));
  const auto& parameters = runtime_->language_model().parameters().all();
  const std::string where =
      bad >= 0 && bad < static_cast<std::int64_t>(parameters.size())
          ? "the gradient of " + parameters[static_cast<std::size_t>(bad)].name
      : std::isfinite(record.loss_ce)
          ? fmt::format("the gradient norm {:.3g} is too large for f32: its square",
                        record.gate_field(ops::GateField::kNorm))
          : std::string("the loss");
  const auto in_row = static_cast<std::int64_t>(record.gate_field(ops::GateField::kNonfiniteInRow));
  reporter_.warning(fmt::format("step {} skipped: {} is not finite", position_.step, where));
  if (in_row < config_.optim.max_nonfinite) return;
  save();
  fail("step ", position_.step, ": ", where, " is not finite, ", in_row,
       " steps in a row (optim.max_nonfinite); the weights before them are in ",
       newest_checkpoint_.string());
}

void Trainer::log_step(const model::StepRecord::Host& record, std::int64_t valid_tokens,
                       double lr) {
  const auto steps = static_cast<double>(interval_.steps);
  metrics_->write(
      metrics_line({.step = position_.step,
                    .tokens = position_.tokens,
                    .routed_tokens = static_cast<double>(valid_tokens),
                    .lr = lr,
                    .step_s = interval_.elapsed_s / steps,
                    .data_s = interval_.data_s / steps,
                    .exchange_s = interval_.exchange_s / steps,
                    .tokens_per_s = static_cast<double>(interval_.tokens) / interval_.elapsed_s,
                    .useful_gflops = interval_.useful_flops / interval_.elapsed_s / 1e9,
                    .memory = memory_,
                    .eval = eval_},
                   record, config_.model));
  if (eval_) {
    reporter_.info(fmt::format("step {}: held-out loss {:.4f}, {:.4f} bits a byte", position_.step,
                               eval_->loss, eval_->bits_per_byte));
  }
  eval_.reset();
  interval_ = {};
}

}  // namespace ulmus::train
