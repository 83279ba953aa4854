#include "ulmus/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ulmus/comm/agreement.h"
#include "ulmus/parallel/all_to_all_exchange.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/layout.h"
#include "ulmus/train/measure.h"
#include "ulmus/train/memory.h"
#include "ulmus/train/token_data.h"

namespace ulmus::train {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds that the meter saw in the operations of the token exchange.
double exchange_seconds(const Meter& meter) {
  const auto& names = parallel::AllToAllExchange::kOperations;  // those of the local one included
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
    elements.push_back(parameter.shape.numel());
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

data::Loader make_training_loader(const Config& config) {
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
  return {std::move(sources),
          {.sequence_length = config.data.sequence_length,
           .packing = data::parse_packing(config.data.packing, "data.packing"),
           .leftover = data::Leftover::kDrop,
           .order = data::Order::kShuffled,
           .seed = config.run.seed}};
}

namespace {

/// The plan, or on every rank why there is none.
optim::Plan agreed_plan(const Config& config, comm::Communicator& ranks) {
  std::optional<optim::Plan> plan;
  comm::agree(ranks, [&] {
    plan = make_plan(config);
    for (const std::int64_t step : config.run.trace) {
      if (step <= plan->num_steps()) continue;
      fail_input("run.trace: step ", step, " of a run of ", plan->num_steps(), " steps");
    }
  });
  ULMUS_CHECK(plan.has_value(), "without one, the refusal was thrown above");
  return *std::move(plan);
}

}  // namespace

Trainer::Trainer(const Config& config, const StopFlag& stop, Reporter& reporter, comm::World& world)
    : config_(config),
      stop_(stop),
      ranks_(world, layout_of(config, world)),
      plan_(agreed_plan(config, world.all())),
      folder_(config.run.dir, world.all()),
      reporter_(reporter, folder_.log_path(), config.run.log_level),
      device_(make_device(config, ranks_.node())) {
  build();
  start();
}

void Trainer::build() {
  comm::agree(ranks_.world().all(), [&] {
    // A run of no steps may do without training data.
    if (config_.data.train.empty()) return;
    loader_ = std::make_unique<data::Loader>(make_training_loader(config_));
  });
  if (loader_) verify_ids(*loader_, config_, device_->pool(), ranks_.world().all());
  if (!config_.data.eval.empty()) {
    evaluator_ = std::make_unique<Evaluator>(config_, device_->pool(), ranks_);
  }
  memory_ = measure_within_budget(config_, Purpose::kTrain, ranks_);
  flops_per_token_ = useful_flops_per_token(config_);
  runtime_ = std::make_unique<Runtime>(config_, Purpose::kTrain, *device_, ranks_, memory_);
  trace_ = std::make_unique<StepTrace>(config_.run.trace, runtime_->meter(), ranks_.world());
  comm::agree(ranks_.world().all(), [&] {
    checkpointing_ = std::make_unique<Checkpointing>(config_, *runtime_, identify_data(config_));
  });
}

/// The newest checkpoint, as the first rank sees it.
std::optional<std::filesystem::path> Trainer::newest_checkpoint() {
  std::string path;
  comm::agree(ranks_.world().all(), [&] {
    if (!writes()) return;
    const auto newest = checkpoint::newest(checkpointing_->checkpoints_dir());
    if (newest) path = newest->path.string();
  });
  ranks_.world().all().broadcast(path, 0);
  if (path.empty()) return std::nullopt;
  return path;
}

void Trainer::start() {
  if (const auto newest = newest_checkpoint()) {
    position_ = checkpointing_->resume(*newest);
    saved_step_ = position_.step;
    newest_checkpoint_ = *newest;
    reporter_.info(fmt::format("continues from {} (step {} of {})", newest->string(),
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
  if (position_.step < plan_.num_steps()) checkpointing_->expect_room();
  for (const std::int64_t step : config_.run.trace) {
    if (step > position_.step) continue;
    reporter_.warning(fmt::format("run.trace: step {} was made before and is not traced", step));
  }
  comm::agree(ranks_.world().all(), [&] {
    if (!writes()) return;
    write_file_atomically(folder_.config_path(), to_toml(config_));
    metrics_ = std::make_unique<MetricsFile>(folder_.metrics_path(), position_.step);
  });
  const auto counts =
      model::count_parameters(runtime_->language_model().parameters(), config_.model);
  reporter_.info(fmt::format("run {}: {} parameters ({} active a token), {}",
                             name_of_run(config_.run), counts.total, counts.active,
                             device_->description()));
  if (ranks_.layout().ranks > 1) reporter_.info(ranks_.layout().text());
  const comm::Node& node = ranks_.node();
  if (node.cores < node.online_cores && config_.device.threads == 0) {
    reporter_.warning(
        fmt::format("the launcher bound this machine's ranks to {} of its {} cores; mpirun "
                    "--bind-to none frees them",
                    node.cores, node.online_cores));
  }
  reporter_.info("optimizer\n" +
                 groups_text(runtime_->language_model().parameters(), config_.optim));
  reporter_.info("memory by class\n" + memory_text(memory_));
}

bool Trainer::is_due(std::int64_t every) const { return every > 0 && position_.step % every == 0; }

void Trainer::saved(const std::filesystem::path& path, std::int64_t step) {
  newest_checkpoint_ = path;
  saved_step_ = step;
  for (const std::string& line : checkpointing_->take_not_removed())
    reporter_.warning(line);
}

void Trainer::save() {
  const TraceSpan span(trace_->active(), "checkpoint", position_.step);
  finish_save();
  if (saved_step_ != position_.step) saved(checkpointing_->save(position_), position_.step);
}

void Trainer::start_save() {
  const TraceSpan span(trace_->active(), "checkpoint", position_.step);
  finish_save();
  checkpointing_->start(position_);
  started_step_ = position_.step;
}

void Trainer::finish_save() {
  if (checkpointing_->is_pending()) saved(checkpointing_->finish(), started_step_);
}

TrainResult Trainer::run() try {
  if (position_.step < plan_.num_steps()) {
    const data::Deal deal = {.micro_sequences = config_.batch.micro_sequences,
                             .rank = ranks_.here().data,
                             .ranks = ranks_.layout().data()};
    prefetcher_ = std::make_unique<data::Prefetcher>(*loader_, deal, plan_.max_batch_sequences());
    prefetcher_->request(position_.data_position, plan_.batch_sequences(position_.step));
    runtime_->meter().reset();
  }
  int signal = 0;  // one that comes after the last step stops nothing
  while (position_.step < plan_.num_steps()) {
    trace_->begin(position_.step + 1);
    const NextStep next = fetch();
    if (checkpointing_->is_pending() && !next.is_saving) {
      if (const auto path = checkpointing_->advance()) saved(*path, started_step_);
    }
    signal = next.signal;
    if (signal != 0) break;
    step(next);
    if (trace_->is_complete(position_.step)) write_trace();
  }
  save();
  write_trace();
  runtime_->parameter_store().finish_weights();  // no rank leaves while another needs its pieces
  report_load();
  if (signal == 0) comm::agree(ranks_.world().all(), [&] { check_end(); });
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

/// What cannot be written is lost; the training it shows is not.
void Trainer::write_trace() {
  if (!trace_->has_events()) return;
  std::int64_t num_dropped = 0;
  try {
    num_dropped = trace_->write(folder_.trace_path());
  } catch (const comm::CommError&) {
    throw;
  } catch (const Error& error) {
    reporter_.warning(concat("no trace: ", error.what()));
    return;
  }
  reporter_.info("trace in " + folder_.trace_path().string());
  if (num_dropped > 0) {
    reporter_.warning(
        fmt::format("trace.json lacks the last {} events: run.trace has room for {} "
                    "on each rank; fewer steps help",
                    num_dropped, StepTrace::kCapacity));
  }
}

/// Waits for the batch and adds up over the ranks what the step needs to know.
Trainer::NextStep Trainer::fetch() {
  const TraceSpan span(trace_->active(), "data", position_.step + 1);
  const auto begin = Clock::now();
  const data::HostBatch& batch = prefetcher_->wait();
  const int own_signal = stop_.signal.load();
  std::array<std::int64_t, 2> sums = {batch.loss_tokens, batch.valid_tokens};
  std::array<std::int64_t, 2> most = {own_signal, checkpointing_->is_busy() ? 1 : 0};
  ranks_.dense().all_reduce(sums, comm::ReduceOp::kSum);
  ranks_.world().all().all_reduce(most, comm::ReduceOp::kMax);
  interval_.data_s += seconds_since(begin);
  return {.batch = &batch,
          .totals = {.loss_tokens = sums[0], .valid_tokens = sums[1]},
          .begin = begin,
          .signal = static_cast<int>(most[0]),
          .is_saving = most[1] != 0};
}

/// One optimizer step.
void Trainer::step(const NextStep& fetched) {
  const std::int64_t sequences = plan_.batch_sequences(position_.step);
  const std::int64_t batch_tokens = sequences * config_.data.sequence_length;
  const std::int64_t next = position_.step + 1;
  if (next < plan_.num_steps()) {
    prefetcher_->request(position_.data_position + sequences, plan_.batch_sequences(next));
  }
  const double lr = plan_.learning_rate(position_.step);
  {
    const TraceSpan span(trace_->active(), "step", next);
    runtime_->train_step(*fetched.batch, fetched.totals, position_.step, lr);
    record_ = runtime_->read_record();
  }
  position_.step = next;
  position_.tokens += batch_tokens;
  position_.data_position += sequences;
  check_record(record_, fetched.totals.valid_tokens);
  const double step_s = seconds_since(fetched.begin);
  close_step(batch_tokens, step_s);
  seconds_per_step_ = seconds_per_step_ == 0.0 ? step_s : 0.9 * seconds_per_step_ + 0.1 * step_s;
  const auto tokens = static_cast<double>(batch_tokens);
  if (evaluator_ && (is_due(config_.eval.every) || is_last())) evaluate();
  if (is_due(config_.run.log_every) || is_last() || eval_ || position_.step == 1) {
    log_step(record_, fetched.totals.valid_tokens, lr);
  }
  if (is_due(config_.checkpoint.every)) {
    if (config_.checkpoint.async) {
      start_save();
    } else {
      save();
    }
  }
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
  const TraceSpan span(trace_->active(), "evaluation", position_.step);
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
  comm::agree(ranks_.world().all(), [&] {
    fail("step ", position_.step, ": ", where, " is not finite, ", in_row,
         " steps in a row (optim.max_nonfinite); the weights before them are in ",
         newest_checkpoint_.string());
  });
}

void Trainer::log_step(const model::StepRecord::Host& record, std::int64_t valid_tokens,
                       double lr) {
  const auto steps = static_cast<double>(interval_.steps);
  if (metrics_) {
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
  }
  if (eval_) {
    reporter_.info(fmt::format("step {}: held-out loss {:.4f}, {:.4f} bits a byte", position_.step,
                               eval_->loss, eval_->bits_per_byte));
  }
  eval_.reset();
  interval_ = {};
}

}  // namespace ulmus::train
