#include "tests/model/model_harness.h"

#include <algorithm>
#include <numeric>

#include "ulmus/base/philox.h"
#include "ulmus/ops/elementwise.h"

namespace ulmus::test {

namespace {

constexpr std::int64_t kArenaBytes = std::int64_t{1} << 24U;

DType dtype_of(Backend backend) { return backend == Backend::kRef ? DType::kF64 : DType::kF32; }

}  // namespace

std::int64_t HostTokens::loss_tokens() const {
  return std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
}

std::int64_t HostTokens::valid_tokens() const {
  return std::accumulate(valid.begin(), valid.end(), std::int64_t{0});
}

HostTokens HostTokens::sequences(std::int64_t begin, std::int64_t end) const {
  const auto part = [&](const auto& all) {
    return std::decay_t<decltype(all)>(all.begin() + begin * sequence_length,
                                       all.begin() + end * sequence_length);
  };
  return {end - begin, sequence_length, part(tokens), part(targets), part(first_key), part(valid)};
}

HostTokens random_tokens(std::int64_t num_sequences, std::int64_t sequence_length,
                         std::int64_t vocab, std::uint64_t seed, bool documents) {
  const PhiloxKey key = philox_key(seed, RandomPurpose::kTest, "tokens");
  HostTokens host{.num_sequences = num_sequences, .sequence_length = sequence_length};
  const std::int64_t padding = documents ? 3 : 0;
  const std::int64_t split = documents ? sequence_length / 3 : 0;
  for (std::int64_t b = 0; b < num_sequences; ++b) {
    for (std::int64_t i = 0; i < sequence_length; ++i) {
      const auto bits = philox(key, {static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(i)});
      const bool is_valid = i < sequence_length - padding;
      const bool ends_document =
          documents && (i == split - 1 || i == sequence_length - padding - 1);
      host.tokens.push_back(is_valid ? static_cast<std::int32_t>(bits[0] % vocab) : 0);
      host.targets.push_back(is_valid && !ends_document ? static_cast<std::int32_t>(bits[1] % vocab)
                                                        : -1);
      host.first_key.push_back(static_cast<std::int32_t>(!is_valid ? i : (i >= split ? split : 0)));
      host.valid.push_back(is_valid ? 1 : 0);
    }
  }
  return host;
}

ModelHarness::ModelHarness(const model::ModelConfig& model_config, Backend backend,
                           std::int64_t max_sequences, std::int64_t sequence_length,
                           int num_threads, double head_z_loss, std::uint64_t seed)
    : config(model_config),
      device(make_cpu_device(num_threads, backend)),
      values(std::make_unique<Arena>(*device, MemoryClass::kParameters, kArenaBytes)),
      grads(std::make_unique<Arena>(*device, MemoryClass::kGradients, kArenaBytes)),
      activations_arena(std::make_unique<Arena>(*device, MemoryClass::kActivations, kArenaBytes)),
      workspace(std::make_unique<Workspace>(*device, kArenaBytes)),
      memory(std::make_unique<nn::ArenaMemory>(*values, grads.get())),
      parameters(std::make_unique<nn::ParameterSet>(*memory, nn::ParameterSet::Gradients::kAllocate,
                                                    dtype_of(backend))),
      head_z_loss_(head_z_loss) {
  model = std::make_unique<model::LanguageModel>(
      config,
      model::LanguageModel::Options{.seed = seed,
                                    .max_positions = sequence_length,
                                    .head_chunk = 7,
                                    .head_z_loss = head_z_loss},
      exchange, *parameters, *values);
  record =
      std::make_unique<model::StepRecord>(*values, model->num_moe_layers(), config.moe.experts);
  host = record->make_host();
  activations = model->allocate_activations(*activations_arena, max_sequences, sequence_length,
                                            model::LanguageModel::Keep::kTraining);
  const Shape shape = {max_sequences * sequence_length};
  tokens_ = values->allocate("tokens", DType::kI32, shape);
  targets_ = values->allocate("targets", DType::kI32, shape);
  first_key_ = values->allocate("first_key", DType::kI32, shape);
  positions_ = values->allocate("positions", DType::kI32, shape);
  valid_ = values->allocate("valid", DType::kU8, shape);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % sequence_length);
  }
  device->copy_to_device(positions_, std::span<const std::int32_t>(positions));
  model->upload_tables(*device);
  for (const nn::Parameter& parameter : parameters->all())
    model->initialize(parameter, parameter.value, 0, context());
}

nn::Batch ModelHarness::upload(const HostTokens& host_tokens) {
  const std::int64_t n = host_tokens.num_sequences * host_tokens.sequence_length;
  const auto stage = [&](TensorView to, const auto& from) {
    device->copy_to_device(to.rows(0, n), std::span(from));
    return to.rows(0, n);
  };
  return {.num_sequences = host_tokens.num_sequences,
          .sequence_length = host_tokens.sequence_length,
          .tokens = stage(tokens_, host_tokens.tokens),
          .targets = stage(targets_, host_tokens.targets),
          .first_key = stage(first_key_, host_tokens.first_key),
          .positions = positions_.rows(0, n),
          .valid = stage(valid_, host_tokens.valid),
          .valid_tokens = host_tokens.valid_tokens()};
}

nn::StepScale ModelHarness::scale_of(const HostTokens& step) const {
  return {.loss_tokens = static_cast<double>(step.loss_tokens()),
          .routed_tokens = static_cast<double>(step.valid_tokens())};
}

const model::StepRecord::Host& ModelHarness::step(const HostTokens& step,
                                                  std::int64_t micro_sequences) {
  record->clear(context());
  for (const nn::Parameter& parameter : parameters->all()) {
    ops::fill({.x = parameter.grad, .value = 0.0}, context());
  }
  nn::StepScale scale = scale_of(step);
  for (std::int64_t begin = 0; begin < step.num_sequences; begin += micro_sequences) {
    const std::int64_t end = std::min(begin + micro_sequences, step.num_sequences);
    scale.first_token = begin * step.sequence_length;
    model->forward_backward(upload(step.sequences(begin, end)), scale, activations, *record,
                            context());
  }
  record->read(host, *device);
  return host;
}

double ModelHarness::objective_of(const model::StepRecord::Host& step_record,
                                  double routed_tokens) const {
  double sum = step_record.loss_ce + head_z_loss_ * step_record.head_z;
  for (std::size_t layer = 0; layer < step_record.balance.size(); ++layer) {
    sum += config.moe.balance_loss * step_record.balance[layer] +
           config.moe.z_loss * step_record.z_sums[layer] / routed_tokens;
  }
  return sum;
}

double ModelHarness::objective(const HostTokens& step, std::int64_t micro_sequences) {
  record->clear(context());
  const nn::StepScale scale = scale_of(step);
  for (std::int64_t begin = 0; begin < step.num_sequences; begin += micro_sequences) {
    const std::int64_t end = std::min(begin + micro_sequences, step.num_sequences);
    model->forward_loss(upload(step.sequences(begin, end)), scale, activations, *record, context());
  }
  record->read(host, *device);
  return objective_of(host, scale.routed_tokens);
}

std::vector<double> ModelHarness::read(ConstTensorView view) {
  const auto n = static_cast<std::size_t>(view.numel());
  if (view.dtype() == DType::kF64) {
    std::vector<double> values_f64(n);
    device->copy_to_host(std::span(values_f64), view);
    return values_f64;
  }
  std::vector<float> values_f32(n);
  device->copy_to_host(std::span(values_f32), view);
  return {values_f32.begin(), values_f32.end()};
}

void ModelHarness::write(TensorView view, const std::vector<double>& new_values) {
  if (view.dtype() == DType::kF64) {
    device->copy_to_device(view, std::span<const double>(new_values));
  } else {
    const std::vector<float> rounded(new_values.begin(), new_values.end());
    device->copy_to_device(view, std::span<const float>(rounded));
  }
}

std::map<std::string, std::vector<double>> ModelHarness::gradients() {
  std::map<std::string, std::vector<double>> all;
  for (const nn::Parameter& parameter : parameters->all())
    all[parameter.name] = read(parameter.grad);
  return all;
}

std::vector<double> ModelHarness::logits(const HostTokens& host_tokens, std::int64_t begin,
                                         std::int64_t n) {
  ScratchScope scratch(*workspace);
  const TensorView out = scratch.take(parameters->dtype(), {n, config.vocab});
  model->forward_logits(out, begin, upload(host_tokens), activations, *record, context());
  return read(out);
}

model::ModelConfig tiny_olmoe() {
  model::ModelConfig config;
  config.family = "olmoe";
  config.d_model = 16;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 4;
  config.head_dim = 4;
  config.vocab = 23;
  config.norm = model::NormPlacement::kPre;
  config.qk_norm = nn::QkNorm::kFull;
  config.init_std = 0.3;
  config.moe.experts = 6;
  config.moe.top_k = 2;
  config.moe.expert_hidden = 5;
  config.moe.balance_loss = 0.3;
  config.moe.z_loss = 0.2;
  return config;
}

model::ModelConfig tiny_olmo3_moe() {
  model::ModelConfig config = tiny_olmoe();
  config.family = "olmo3_moe";
  config.layers = 3;
  config.kv_heads = 2;
  config.norm = model::NormPlacement::kPeri;
  config.qk_norm = nn::QkNorm::kHead;
  config.window = {.size = 4,
                   .pattern = {model::LayerType::kWindow, model::LayerType::kFull},
                   .last_full = true};
  config.rope.yarn_factor = 4.0;
  config.rope.yarn_original_length = 8;
  config.dense_layers = 1;
  config.ffn_hidden = 12;
  config.embed_scale = 4.0;
  config.embed_norm = true;
  config.moe.shared_hidden = 7;
  config.moe.rule.weights = ops::RouteWeights::kSumToK;
  config.moe.balance_scope = nn::BalanceScope::kMicroBatch;
  return config;
}

}  // namespace ulmus::test
