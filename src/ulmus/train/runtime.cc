#include "ulmus/train/runtime.h"

#include <algorithm>

#include "ulmus/ops/router_bias.h"
#include "ulmus/parallel/all_to_all_exchange.h"
#include "ulmus/parallel/local_exchange.h"
#include "ulmus/parallel/resharded_store.h"
#include "ulmus/parallel/resident_store.h"

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

/// This rank's shares, each with the learning-rate scale and decay of its group.
std::vector<optim::OptimizedTensor> optimized_tensors(const nn::ParameterSet& parameters,
                                                      const parallel::ParameterStore& store,
                                                      const OptimConfig& config) {
  std::vector<std::string> names;
  for (const nn::Parameter& parameter : parameters.all())
    names.push_back(parameter.name);
  const auto groups = optim::assign_groups(names, config.groups, config.weight_decay);
  std::vector<optim::OptimizedTensor> tensors;
  for (const parallel::OwnedShare& share : store.shares()) {
    const auto i = static_cast<std::size_t>(share.parameter);
    tensors.push_back({.name = names[i],
                       .blocks = share.blocks,
                       .param = share.value,
                       .grad = share.grad,
                       .lr_scale = groups[i].lr_scale,
                       .weight_decay = groups[i].weight_decay});
  }
  return tensors;
}

nn::ParameterSet::Gradients gradients_of(Purpose purpose) {
  return purpose == Purpose::kTrain ? nn::ParameterSet::Gradients::kAllocate
                                    : nn::ParameterSet::Gradients::kNone;
}

/// What each unit of the model takes on a rank, found by registering its parameters on paper.
std::vector<std::int64_t> measure_units(const Config& config, nn::ExpertShard experts) {
  const std::unique_ptr<Device> meta = make_meta_device(1);
  Arena arena(*meta, MemoryClass::kParameters, Arena::kUnbounded);
  nn::ArenaMemory memory(arena, nullptr);
  nn::ParameterSet parameters(memory, nn::ParameterSet::Gradients::kNone, dtype_of(config.compute),
                              experts);
  parallel::LocalExchange exchange;
  const model::LanguageModel model(config.model, {.max_positions = 1}, exchange, parameters, arena);
  return nn::bytes_of_units(parameters);
}

std::unique_ptr<nn::ParameterMemory> make_memory(const Config& config, Purpose purpose,
                                                 const parallel::Ranks& ranks, Arena& values,
                                                 Arena& gradients) {
  if (config.parallel.params == Params::kResident) {
    return std::make_unique<nn::ArenaMemory>(values,
                                             purpose == Purpose::kTrain ? &gradients : nullptr);
  }
  const std::vector<std::int64_t> bytes =
      measure_units(config, {ranks.here().expert, ranks.layout().expert});
  // One slot in use, and with prefetch one on its way; weights that stay have one each.
  const int in_turns = config.parallel.prefetch ? 2 : 1;
  const bool stay = config.parallel.reshard == parallel::Reshard::kStep;
  return std::make_unique<parallel::SlotMemory>(
      parallel::SlotMemory::Options{
          .weight_slots = stay ? static_cast<int>(bytes.size()) : in_turns,
          .gradient_slots = in_turns,
          .first_alone = config.model.tied},
      bytes, gradients_of(purpose), values, gradients);
}

std::unique_ptr<nn::TokenExchange> make_exchange(const ParallelConfig& config,
                                                 const parallel::Ranks& ranks, Device& device) {
  if (config.used_exchange() == Exchange::kLocal) {
    return std::make_unique<parallel::LocalExchange>();
  }
  return std::make_unique<parallel::AllToAllExchange>(ranks.experts(), device);
}

std::unique_ptr<comm::AllReduce> make_record_reduction(const model::StepRecord& record,
                                                       const parallel::Ranks& ranks,
                                                       Arena& exchange, Device& device) {
  std::vector<comm::AllReduce::Part> parts = record.reductions();
  comm::Communicator& group = ranks.dense();
  const TensorView staging = exchange.allocate(
      "record.staging", DType::kU8, {comm::AllReduce::staging_bytes(parts, group.size())});
  return std::make_unique<comm::AllReduce>(group, std::move(parts), staging, device);
}

}  // namespace

MemoryTable Runtime::unbounded() {
  MemoryTable table;
  table.bytes.fill(Arena::kUnbounded);
  return table;
}

Runtime::Runtime(const Config& config, Purpose purpose, Device& device,
                 const parallel::Ranks& ranks, const MemoryTable& capacity,
                 const RuntimeOptions& options)
    : device_(device),
      ranks_(ranks),
      arenas_(make_arenas(device, capacity)),
      workspace_(device, capacity[MemoryClass::kWorkspace]),
      exchange_(make_exchange(config.parallel, ranks, device)),
      memory_(make_memory(config, purpose, ranks, arena(MemoryClass::kParameters),
                          arena(MemoryClass::kGradients))),
      parameters_(*memory_, gradients_of(purpose), dtype_of(config.compute),
                  {ranks.here().expert, ranks.layout().expert}),
      model_(config.model,
             {.seed = config.run.seed,
              .max_positions = config.data.sequence_length,
              .head_chunk = config.memory.head_chunk,
              .head_z_loss = config.optim.head_z_loss,
              .tape = options.tape},
             *exchange_, parameters_, arena(MemoryClass::kOptimizer)),
      record_(arena(MemoryClass::kOptimizer), model_.num_moe_layers(), config.model.moe.experts),
      host_record_(record_.make_host()),
      buffers_(arena(MemoryClass::kActivations), config.batch.micro_sequences,
               config.data.sequence_length, config.model.window.size),
      activations_(model_.allocate_activations(
          arena(MemoryClass::kActivations), config.batch.micro_sequences,
          config.data.sequence_length,
          purpose == Purpose::kTrain ? model::LanguageModel::Keep::kTraining
                                     : model::LanguageModel::Keep::kForward)),
      store_(make_store(config.parallel, options.families.value_or(ranks.families()))),
      reduce_record_(make_record_reduction(record_, ranks, arena(MemoryClass::kExchange), device)),
      bias_update_(config.model.moe.bias_update) {
  if (purpose == Purpose::kTrain) {
    optimizer_ = std::make_unique<optim::Optimizer>(
        optimized_tensors(parameters_, *store_, config.optim),
        optim::Optimizer::Options{.beta1 = config.optim.beta1,
                                  .beta2 = config.optim.beta2,
                                  .eps = config.optim.eps,
                                  .clip = config.optim.clip,
                                  .skip_sigma = config.optim.skip_sigma},
        optim::GateRecord{.gate = record_.gate(),
                          .norm_sq = record_.norm_sq(),
                          .first_bad = record_.first_bad(),
                          .loss = record_.loss()},
        arena(MemoryClass::kOptimizer), device);
  }
  model_.upload_tables(device);
  buffers_.upload_positions(device);
}

std::unique_ptr<parallel::ParameterStore> Runtime::make_store(
    const ParallelConfig& config, const parallel::FamilyGroups& groups) {
  Arena& values = arena(MemoryClass::kParameters);
  Arena& gradients = arena(MemoryClass::kGradients);
  Arena& exchange = arena(MemoryClass::kExchange);
  if (config.params == Params::kResident) {
    return std::make_unique<parallel::ResidentStore>(parameters_, groups, ranks_.world(), values,
                                                     gradients, exchange, device_);
  }
  const parallel::ReshardedStore::Options options = {
      .reshard = config.reshard,
      .prefetch = config.prefetch ? parallel::Prefetch::kNextUnit : parallel::Prefetch::kNone};
  return std::make_unique<parallel::ReshardedStore>(
      parameters_, options, groups, ranks_.world(),
      dynamic_cast<const parallel::SlotMemory&>(*memory_), values, gradients, exchange, context());
}

void Runtime::initialize_parameters() {
  for (const parallel::OwnedShare& share : store_->shares()) {
    if (share.blocks.num_blocks() == 0) continue;
    model_.initialize(parameters_.all()[static_cast<std::size_t>(share.parameter)], share.value,
                      share.blocks.element_begin(), context());
  }
  store_->publish_weights();
  store_->finish_weights();
}

void Runtime::accumulate_gradients(const data::HostBatch& batch, const StepTotals& totals,
                                   std::int64_t step) {
  const ExecContext ctx = context();
  record_.clear(ctx);
  store_->begin_step(ctx);
  // A step without a single loss token still has a defined (zero) loss.
  nn::StepScale scale = {
      .loss_tokens = static_cast<double>(std::max<std::int64_t>(totals.loss_tokens, 1)),
      .routed_tokens = static_cast<double>(std::max<std::int64_t>(totals.valid_tokens, 1)),
      .step = step};
  std::int64_t begin = 0;
  for (const data::MicroBatch& micro : batch.micro_batches) {
    const bool is_last = &micro == &batch.micro_batches.back();
    store_->begin_micro_batch(is_last ? parallel::ParameterStore::Position::kLast
                                      : parallel::ParameterStore::Position::kNotLast);
    scale.first_token = micro.first_sequence * batch.sequence_length;
    const std::int64_t end = begin + micro.num_sequences;
    model_.forward_backward(buffers_.load(batch, begin, end, device_), scale, activations_, record_,
                            ctx);
    begin = end;
  }
  store_->finish_gradients();
  optimizer_->measure(ctx);
  reduce_record();
}

void Runtime::reduce_record() {
  reduce_record_->start();
  reduce_record_->wait();
}

void Runtime::train_step(const data::HostBatch& batch, const StepTotals& totals, std::int64_t step,
                         double lr) {
  accumulate_gradients(batch, totals, step);
  update(lr);
}

void Runtime::update(double lr) {
  const ExecContext ctx = context();
  optimizer_->update(lr, ctx);
  store_->publish_weights();
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
  std::int64_t begin = 0;
  for (const data::MicroBatch& micro : batch.micro_batches) {
    scale.first_token = (first_sequence + micro.first_sequence) * batch.sequence_length;
    const std::int64_t end = begin + micro.num_sequences;
    model_.forward_loss(buffers_.load(batch, begin, end, device_), scale, activations_, record_,
                        ctx);
    begin = end;
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

int num_threads(const Config& config, const comm::Node& node) {
  return config.device.threads > 0 ? config.device.threads : node.threads_of_rank;
}

std::unique_ptr<Device> make_device(const Config& config, const comm::Node& node) {
  return make_cpu_device(num_threads(config, node),
                         config.compute == Compute::kFp64 ? Backend::kRef : Backend::kCpu);
}

}  // namespace ulmus::train
