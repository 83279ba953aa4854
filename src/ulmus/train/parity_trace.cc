#include "ulmus/train/parity_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ulmus/train/layout.h"
#include "ulmus/train/measure.h"
#include "ulmus/train/parity_batch.h"

namespace ulmus::train {

namespace {

constexpr std::int64_t kSteps = 2;

template <class T>
std::vector<double> as_doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

/// Elements of a float tensor of a device.
std::vector<double> read_values(ConstTensorView view, Device& device) {
  const auto n = static_cast<std::size_t>(view.numel());
  if (view.dtype() == DType::kF64) {
    std::vector<double> values(n);
    device.copy_to_host(std::span(values), view);
    return values;
  }
  std::vector<float> values(n);
  device.copy_to_host(std::span(values), view);
  return as_doubles(values);
}

/// A whole tensor from the parts that ranks own: each element is one rank's value plus zeros. NaN
/// where two ranks own an element, or none, so that it equals nothing.
std::vector<double> assembled(const BlockRange& blocks, ConstTensorView owned, Device& device,
                              comm::Communicator& ranks) {
  const BlockRange all = BlockRange::all(blocks.numel, blocks.slice_elements);
  std::vector<std::int64_t> owners(static_cast<std::size_t>(all.num_blocks()), 0);
  std::fill(owners.begin() + blocks.begin, owners.begin() + blocks.end, 1);
  std::vector<double> whole(static_cast<std::size_t>(blocks.numel), 0.0);
  const std::vector<double> mine = read_values(owned, device);
  std::copy(mine.begin(), mine.end(), whole.begin() + blocks.element_begin());
  ranks.all_reduce(whole, comm::ReduceOp::kSum);
  ranks.all_reduce(owners, comm::ReduceOp::kSum);
  for (std::int64_t block = 0; block < all.num_blocks(); ++block) {
    if (owners[static_cast<std::size_t>(block)] == 1) continue;
    std::fill(whole.begin() + block_begin(block, all.numel, all.slice_elements),
              whole.begin() + block_begin(block + 1, all.numel, all.slice_elements),
              std::numeric_limits<double>::quiet_NaN());
  }
  return whole;
}

/// Adds what a runtime holds to a trace.
class Tracer {
 public:
  Tracer(Trace& trace, Runtime& runtime, const Config& config, std::int64_t step)
      : trace_(trace), runtime_(runtime), config_(config), step_(step) {}

  void add_gradients() { add_shares(TracedTensor::Kind::kGradient, "gradient"); }
  void add_weights() { add_shares(TracedTensor::Kind::kWeight, "weight"); }

  void add_record() {
    using Traced = TracedTensor::Kind;
    const model::StepRecord::Host& record = runtime_.read_record();
    add(Traced::kMetric, "loss/ce", {record.loss_ce});
    add(Traced::kMetric, "loss/head_z", {record.head_z});
    add(Traced::kMetric, "gradient norm", {record.gate_field(ops::GateField::kNorm)});
    add(Traced::kMetric, "clip factor", {record.gate_field(ops::GateField::kClip)});
    add(Traced::kCount, "updates", {record.gate_field(ops::GateField::kCount)});
    add(Traced::kCount, "reason to skip", {record.gate_field(ops::GateField::kReason)});
    add(Traced::kMetric, "loss/balance", record.balance);
    add(Traced::kMetric, "loss/z", record.z_sums);
    for (std::size_t layer = 0; layer < record.counts.size(); ++layer) {
      add(Traced::kCount, fmt::format("counts of mixture layer {}", layer),
          as_doubles(record.counts[layer]));
      add(Traced::kMetric, fmt::format("scores of mixture layer {}", layer),
          record.score_sums[layer]);
    }
    for (const model::Block& block : runtime_.language_model().blocks()) {
      if (!block.is_moe() || block.router().buffers().bias.is_empty()) continue;
      add(Traced::kMetric, "balancing bias " + block.router().name(),
          read_values(block.router().buffers().bias, runtime_.device()));
    }
  }

 private:
  TracedTensor& add(TracedTensor::Kind kind, const std::string& name, std::vector<double> values) {
    trace_.tensors.push_back({.name = fmt::format("step {} {}", step_ + 1, name),
                              .kind = kind,
                              .values = std::move(values),
                              .step = step_});
    return trace_.tensors.back();
  }

  void add_shares(TracedTensor::Kind kind, const std::string& what) {
    const auto& parameters = runtime_.language_model().parameters().all();
    const auto& optimized = runtime_.optimizer().tensors();
    comm::Communicator& ranks = runtime_.ranks().world().all();
    for (const parallel::OwnedShare& share : runtime_.parameter_store().shares()) {
      const nn::Parameter& parameter = parameters[static_cast<std::size_t>(share.parameter)];
      const TensorView owned = kind == TracedTensor::Kind::kGradient ? share.grad : share.value;
      TracedTensor& added = add(kind, what + " " + parameter.name,
                                assembled(share.blocks, owned, runtime_.device(), ranks));
      added.parameter = share.parameter;
      added.lr = config_.optim.phases.front().lr *
                 optimized[static_cast<std::size_t>(share.parameter)].lr_scale;
    }
  }

  Trace& trace_;
  Runtime& runtime_;
  const Config& config_;
  std::int64_t step_;
};

/// A history in which skip-step judges, and lets losses and norms of first steps pass.
void fill_windows(Runtime& runtime, const Config& config) {
  constexpr double kUsualNorm = 20.0;
  const double usual_loss = std::log(static_cast<double>(config.model.vocab));
  optim::OptimizerState state = runtime.optimizer().export_state(runtime.device());
  const auto window = static_cast<std::size_t>(ops::kSkipWindow);
  for (std::size_t i = 0; i < window; ++i) {
    const double swing = i % 2 == 0 ? 0.5 : 1.5;
    state.windows[i] = swing * usual_loss;
    state.windows[window + i] = swing * kUsualNorm;
  }
  state.windows[2 * window] = static_cast<double>(window);
  runtime.optimizer().import_state(state, runtime.device());
}

/// What selection compares, one row: the logits, or scores with the bias added.
std::vector<double> selection_keys(std::span<const double> logits, std::span<const double> bias,
                                   ops::RouterGate gate) {
  std::vector<double> keys(logits.begin(), logits.end());
  if (bias.empty()) return keys;
  const double largest = *std::ranges::max_element(keys);
  double sum = 0.0;
  for (const double logit : logits)
    sum += std::exp(logit - largest);
  for (std::size_t e = 0; e < keys.size(); ++e) {
    const double score = gate == ops::RouterGate::kSoftmax ? std::exp(logits[e] - largest) / sum
                                                           : 1.0 / (1.0 + std::exp(-logits[e]));
    keys[e] = score + bias[e];
  }
  return keys;
}

}  // namespace

void KeptRoutes::note_margin(std::span<const double> keys, std::span<const std::int32_t> chosen) {
  double last = std::numeric_limits<double>::infinity();
  double best_left = -last;
  for (std::size_t e = 0; e < keys.size(); ++e) {
    const bool is_chosen = std::ranges::find(chosen, static_cast<std::int32_t>(e)) != chosen.end();
    if (is_chosen) {
      last = std::min(last, keys[e]);
    } else {
      best_left = std::max(best_left, keys[e]);
    }
  }
  smallest_margin_ = std::min(smallest_margin_, std::abs(last - best_left));
}

void KeptRoutes::on_routes(const nn::Router& router, const nn::StepScale& scale, TensorView ids,
                           ConstTensorView logits, const ExecContext& ctx) {
  if (ids.dim(0) == 0 || ctx.is_meta()) return;
  const auto n = static_cast<std::size_t>(ids.dim(0));
  const auto top_k = static_cast<std::size_t>(ids.dim(1));
  const auto experts = static_cast<std::size_t>(logits.dim(1));
  std::vector<std::int32_t> chosen(n * top_k);
  ctx.device.copy_to_host(std::span(chosen), ConstTensorView(ids));
  const std::vector<double> all_logits = read_values(logits, ctx.device);
  const ConstTensorView bias_view = router.buffers().bias;
  const std::vector<double> bias =
      bias_view.is_empty() ? std::vector<double>() : read_values(bias_view, ctx.device);
  for (std::size_t token = 0; token < n; ++token) {
    const Key key{router.name(), scale.step, scale.first_token + static_cast<std::int64_t>(token)};
    const std::span<std::int32_t> row = std::span(chosen).subspan(token * top_k, top_k);
    if (source_ != nullptr && scale.step >= first_replayed_) {
      const auto kept = source_->ids_.find(key);
      ULMUS_CHECK(kept != source_->ids_.end(), "no routes are kept for ", key.router, ", step ",
                  key.step, ", token ", key.token);
      std::ranges::copy(kept->second, row.begin());
    }
    ids_[key] = {row.begin(), row.end()};
    if (row.front() < 0 || top_k == experts) continue;
    note_margin(selection_keys(std::span(all_logits).subspan(token * experts, experts), bias,
                               router.config().rule.gate),
                row);
  }
  ctx.device.copy_to_device(ids, std::span<const std::int32_t>(chosen));
}

Trace trace_steps(const Config& config, comm::World& world, const ParityScene& scene,
                  nn::RouteTape* tape, const ParityFaults& faults) {
  const parallel::Ranks ranks(world, layout_of(config, world));
  const std::unique_ptr<Device> device = make_device(config, ranks.node());
  MemoryTable memory = measure_within_budget(config, Purpose::kTrain, ranks);
  RuntimeOptions options = {.tape = tape, .families = std::nullopt};
  if (faults.families) {
    options.families = faults.families(ranks);
    for (std::int64_t& bytes : memory.bytes)
      bytes *= ranks.layout().ranks;  // shares as large as the wrong groups make them
  }
  Runtime runtime(config, Purpose::kTrain, *device, ranks, memory, options);
  runtime.initialize_parameters();
  fill_windows(runtime, config);
  if (scene.before_steps) scene.before_steps(runtime);
  const data::Deal deal = {.micro_sequences = config.batch.micro_sequences,
                           .rank = ranks.here().data,
                           .ranks = ranks.layout().data()};
  Trace trace;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const data::HostBatch whole = parity_step(config, step, scene.data);
    Tracer tracer(trace, runtime, config, step);
    runtime.accumulate_gradients(dealt(whole, deal), {whole.loss_tokens, whole.valid_tokens}, step);
    if (faults.after_gradients) faults.after_gradients(runtime);
    tracer.add_gradients();
    runtime.update(config.optim.phases.front().lr);
    tracer.add_weights();
    tracer.add_record();
  }
  runtime.parameter_store().finish_weights();
  return trace;
}

}  // namespace ulmus::train
