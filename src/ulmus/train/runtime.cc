#include "ulmus/train/runtime.h"

#include <algorithm>

#include "ulmus/ops/router_bias.h"

namespace ulmus::train {

namespace {

DType dtype_of(Compute compute) { return compute == Compute::kFp64 ? DType::kF64 : DType::kF32; }

std::vector<std::unique_ptr<Arena>> make_arenas(Device& device, const MemoryTable& capacity) {
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    const auto memory_class = static_cast<MemoryClass>(i);
    const bool is_workspace = memory_class == MemoryClass::kWorkspace;
    arenas.push_back(
        std::make_unique<Arena>(device, memory_class, is_workspace ? 0 : capacity[memory_class]));
  }
  return arenas;
}

/// Parameters of the optimizer, each with the learning-rate scale and decay of its group.
std::vector<optim::OptimizedTensor> optimized_tensors(const nn::ParameterSet& parameters,
                                                      const OptimConfig& config) {
  std::vector<std::string> names;
  for (const nn::Parameter& parameter : parameters.all())
    names.push_back(parameter.name);
  const auto groups = optim::assign_groups(names, config.groups, config.weight_decay);
  std::vector<optim::OptimizedTensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const nn::Parameter& parameter = parameters.all()[i];
    tensors.push_back({.name = parameter.name,
                       .param = parameter.value,
                       .grad = parameter.grad,
                       .slice_elements = parameter.slice_elements,
                       .lr_scale = groups[i].lr_scale,
                       .weight_decay = groups[i].weight_decay});
  }
  return tensors;
}

}  // namespace

MemoryTable Runtime::unbounded() {
  MemoryTable table;
  table.bytes.fill(Arena::kUnbounded);
  return table;
}

Runtime::Runtime(const Config& config, Purpose purpose, Device& device, const MemoryTable& capacity)
    : device_(device),
      arenas_(make_arenas(device, capacity)),
      workspace_(device, capacity[MemoryClass::kWorkspace]),
      parameters_(arena(MemoryClass::kParameters), arena(MemoryClass::kGradients),
                  purpose == Purpose::kTrain ? nn::ParameterSet::Gradients::kAllocate
                                             : nn::ParameterSet::Gradients::kNone,
                  dtype_of(config.compute)),
      model_(config.model,
             {.seed = config.run.seed,
              .max_positions = config.data.sequence_length,
              .head_chunk = config.memory.head_chunk,
              .head_z_loss = config.optim.head_z_loss},
             exchange_, parameters_, arena(MemoryClass::kParameters)),
      record_(arena(MemoryClass::kOptimizer), model_.num_moe_layers(), config.model.moe.experts),
      host_record_(record_.make_host()),
      buffers_(arena(MemoryClass::kActivations), config.batch.micro_sequences,
               config.data.sequence_length, config.model.window.size),
      activations_(model_.allocate_activations(
          arena(MemoryClass::kActivations), config.batch.micro_sequences,
          config.data.sequence_length,
          purpose == Purpose::kTrain ? model::LanguageModel::Keep::kTraining
                                     : model::LanguageModel::Keep::kForward)),
      micro_sequences_(config.batch.micro_sequences),
      bias_update_(config.model.moe.bias_update) {
  if (purpose == Purpose::kTrain) {
    optimizer_ = std::make_unique<optim::Optimizer>(
        optimized_tensors(parameters_, config.optim),
        optim::Optimizer::Options{.beta1 = config.optim.beta1,
                                  .beta2 = config.optim.beta2,
                                  .eps = config.optim.eps,
                                  .clip = config.optim.clip,
                                  .skip_sigma = config.optim.skip_sigma},
        record_.gate(), arena(MemoryClass::kOptimizer), device);
  }
  model_.upload_tables(device);
  buffers_.upload_positions(device);
}

void Runtime::initialize_parameters() { model_.initialize_parameters(context()); }

nn::StepScale Runtime::scale_of(const data::HostBatch& batch, std::int64_t step) const {
  // A step without a single loss token still has a defined (zero) loss.
  return {.loss_tokens = static_cast<double>(std::max<std::int64_t>(batch.loss_tokens, 1)),
          .routed_tokens = static_cast<double>(std::max<std::int64_t>(batch.valid_tokens, 1)),
          .step = step};
}

void Runtime::accumulate_gradients(const data::HostBatch& batch, std::int64_t step) {
  const ExecContext ctx = context();
  record_.clear(ctx);
  optimizer_->zero_gradients(ctx);
  nn::StepScale scale = scale_of(batch, step);
  for (std::int64_t begin = 0; begin < batch.num_sequences; begin += micro_sequences_) {
    const std::int64_t end = std::min(begin + micro_sequences_, batch.num_sequences);
    scale.first_token = begin * batch.sequence_length;
    model_.forward_backward(buffers_.load(batch, begin, end, device_), scale, activations_, record_,
                            ctx);
  }
}

void Runtime::train_step(const data::HostBatch& batch, std::int64_t step, double lr) {
  accumulate_gradients(batch, step);
  end_step(lr);
}

void Runtime::end_step(double lr) {
  const ExecContext ctx = context();
  optimizer_->step(record_.loss(), lr, ctx);
  int moe_layer = 0;
  for (const model::Block& block : model_.blocks()) {
    if (!block.is_moe()) continue;
    const nn::Router::Buffers& buffers = block.router().buffers();
    const ConstTensorView counts = record_.of_moe_layer(moe_layer++).counts;
    ops::keep_counts(
        {.previous = buffers.previous_counts, .counts = counts, .gate = record_.gate()}, ctx);
    if (buffers.bias.is_empty()) continue;
    ops::router_bias(
        {.bias = buffers.bias, .counts = counts, .gate = record_.gate(), .rate = bias_update_},
        ctx);
  }
}

void Runtime::evaluate(const data::HostBatch& batch, std::int64_t first_sequence,
                       double loss_tokens) {
  const ExecContext ctx = context();
  nn::StepScale scale = {.loss_tokens = loss_tokens, .routed_tokens = loss_tokens};
  for (std::int64_t begin = 0; begin < batch.num_sequences; begin += micro_sequences_) {
    const std::int64_t end = std::min(begin + micro_sequences_, batch.num_sequences);
    scale.first_token = (first_sequence + begin) * batch.sequence_length;
    model_.forward_loss(buffers_.load(batch, begin, end, device_), scale, activations_, record_,
                        ctx);
  }
}

const model::StepRecord::Host& Runtime::read_record() {
  record_.read(host_record_, device_);
  return host_record_;
}

MemoryTable Runtime::used() const {
  MemoryTable table;
  for (const auto& arena : arenas_)
    table[arena->memory_class()] = arena->used_bytes();
  table[MemoryClass::kWorkspace] = workspace_.peak_bytes();
  return table;
}

const std::vector<Allocation>& Runtime::allocations(MemoryClass memory_class) const {
  return arenas_[static_cast<std::size_t>(memory_class)]->allocations();
}

int num_threads(const Config& config) {
  return config.device.threads > 0 ? config.device.threads : available_threads();
}

std::unique_ptr<Device> make_device(const Config& config) {
  return make_cpu_device(num_threads(config),
                         config.compute == Compute::kFp64 ? Backend::kRef : Backend::kCpu);
}

namespace {

/// A batch of `num_sequences` whole sequences, for runs that compute nothing.
data::HostBatch blank_batch(std::int64_t num_sequences, std::int64_t sequence_length) {
  const auto n = static_cast<std::size_t>(num_sequences * sequence_length);
  data::HostBatch batch;
  batch.num_sequences = num_sequences;
  batch.sequence_length = sequence_length;
  batch.tokens.assign(n, 0);
  batch.targets.assign(n, 0);
  batch.document_begin.assign(n, 0);
  batch.valid.assign(n, 1);
  batch.loss_tokens = static_cast<std::int64_t>(n);
  batch.valid_tokens = static_cast<std::int64_t>(n);
  return batch;
}

}  // namespace

MemoryTable measure_memory(const Config& config, Purpose purpose, int threads) {
  const std::unique_ptr<Device> meta = make_meta_device(threads);
  Runtime runtime(config, purpose, *meta, Runtime::unbounded());
  const data::HostBatch batch =
      blank_batch(config.batch.micro_sequences, config.data.sequence_length);
  runtime.initialize_parameters();
  if (purpose == Purpose::kTrain) runtime.train_step(batch, 1, 0.0);
  runtime.evaluate(batch, 0, 1.0);
  return runtime.used();
}

double useful_flops_per_token(const Config& config) {
  const std::unique_ptr<Device> meta = make_meta_device(num_threads(config));
  Runtime runtime(config, Purpose::kTrain, *meta, Runtime::unbounded());
  const data::HostBatch batch =
      blank_batch(config.batch.micro_sequences, config.data.sequence_length);
  runtime.meter().reset();
  runtime.train_step(batch, 1, 0.0);
  return runtime.meter().useful_flops() / static_cast<double>(batch.valid_tokens);
}

}  // namespace ulmus::train
