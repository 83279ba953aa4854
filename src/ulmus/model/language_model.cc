#include "ulmus/model/language_model.h"

#include <utility>

#include "ulmus/ops/elementwise.h"
#include "ulmus/ops/embedding.h"
#include "ulmus/ops/head_loss.h"
#include "ulmus/ops/initialize.h"
#include "ulmus/ops/matmul.h"

namespace ulmus::model {

using ops::Accumulate;

namespace {

constexpr double kInitialBound = 3.0;  // weights are cut at three deviations

}  // namespace

LanguageModel::LanguageModel(const ModelConfig& config, const Options& options,
                             nn::TokenExchange& exchange, nn::ParameterSet& parameters,
                             Arena& buffers)
    : config_(config), options_(options), parameters_(parameters) {
  const DType dtype = parameters.dtype();
  const nn::Initialization init{.std = config.init_std};
  const nn::RmsNorm::Config norm = {.width = config.d_model, .eps = config.norm_eps};
  for (const LayerType type : {LayerType::kFull, LayerType::kWindow}) {
    rope_tables_[static_cast<int>(type)] =
        buffers.allocate(type == LayerType::kFull ? "rope_table.full" : "rope_table.window", dtype,
                         {options.max_positions, config.head_dim});
  }
  embedding_unit_ = parameters.begin_unit("embedding");
  embedding_ = parameters.add("embedding.weight", {config.vocab, config.d_model},
                              nn::ParameterFamily::kDense, init);
  if (config.embed_norm) embed_norm_ = nn::RmsNorm(norm, parameters, "embedding_norm");
  blocks_.reserve(static_cast<std::size_t>(config.layers));
  for (int layer = 0; layer < config.layers; ++layer) {
    block_units_.push_back(parameters.begin_unit("layers." + std::to_string(layer)));
    blocks_.emplace_back(
        Block::Config{.model = &config_,
                      .layer = layer,
                      .seed = options.seed,
                      .rope_table = rope_tables_[static_cast<int>(config.layer_type(layer))],
                      .exchange = &exchange,
                      .buffers = &buffers,
                      .tape = options.tape},
        parameters);
  }
  head_unit_ = parameters.begin_unit("head");
  final_norm_ = nn::RmsNorm(norm, parameters, "final_norm");
  head_ = config.tied ? embedding_
                      : parameters.add("head.weight", {config.vocab, config.d_model},
                                       nn::ParameterFamily::kDense, init);
}

void LanguageModel::upload_tables(Device& device) const {
  for (const LayerType type : {LayerType::kFull, LayerType::kWindow}) {
    const TensorView table = rope_tables_[static_cast<int>(type)];
    const std::vector<double> angles =
        ops::rope_table(config_.rope_of(type), options_.max_positions, config_.head_dim);
    if (table.dtype() == DType::kF64) {
      device.copy_to_device(table, std::span<const double>(angles));
    } else {
      const std::vector<float> rounded(angles.begin(), angles.end());
      device.copy_to_device(table, std::span<const float>(rounded));
    }
  }
}

void LanguageModel::initialize(const nn::Parameter& parameter, TensorView part,
                               std::int64_t first_element, const ExecContext& ctx) const {
  if (parameter.initialization.std == 0.0) {
    ops::fill({.x = part, .value = 1.0}, ctx);
    return;
  }
  ops::initialize_truncated_normal(
      {.x = part,
       .key = philox_key(options_.seed, RandomPurpose::kInitialWeights, parameter.name),
       .std = parameter.initialization.std,
       .bound = kInitialBound,
       .first_element = first_element},
      ctx);
}

LanguageModel::Activations LanguageModel::allocate_activations(Arena& arena,
                                                               std::int64_t max_sequences,
                                                               std::int64_t sequence_length,
                                                               Keep keep) const {
  const DType dtype = parameters_.dtype();
  const std::int64_t max_tokens = max_sequences * sequence_length;
  const auto rows = [&](const char* name) {
    return arena.allocate(name, dtype, {max_tokens, config_.d_model});
  };
  Activations activations;
  activations.keep = keep;
  activations.embedded = rows("embedded");
  if (config_.embed_norm) {
    activations.embedded_normed = rows("embedded_normed");
    activations.embed_norm = nn::RmsNorm::allocate(arena, "embedding_norm", max_tokens, dtype);
  }
  const Block* first_of_kind[2] = {nullptr, nullptr};
  std::size_t first_idx[2] = {0, 0};
  for (const Block& block : blocks_) {
    const int kind = block.is_moe() ? 1 : 0;
    if (keep == Keep::kForward && first_of_kind[kind] != nullptr) {
      activations.blocks.push_back(activations.blocks[first_idx[kind]]);
      continue;
    }
    if (first_of_kind[kind] == nullptr) {
      first_of_kind[kind] = &block;
      first_idx[kind] = activations.blocks.size();
    }
    activations.blocks.push_back(block.allocate(arena, max_sequences, sequence_length));
  }
  activations.final_normed = rows("final_normed");
  activations.final_norm = nn::RmsNorm::allocate(arena, "final_norm", max_tokens, dtype);
  if (keep == Keep::kTraining) {
    activations.grad[0] = rows("grad.0");
    activations.grad[1] = rows("grad.1");
    for (const int kind : {0, 1}) {
      if (first_of_kind[kind] == nullptr) continue;
      (kind == 1 ? activations.pending_moe : activations.pending_dense) =
          first_of_kind[kind]->allocate_pending(arena, max_tokens);
    }
  }
  return activations;
}

nn::RouterRecord LanguageModel::record_of(int layer, const StepRecord& record) const {
  return config_.is_dense(layer) ? nn::RouterRecord{}
                                 : record.of_moe_layer(layer - config_.dense_layers);
}

ConstTensorView LanguageModel::embed(const nn::Batch& batch, Activations& activations,
                                     const ExecContext& ctx) const {
  const std::int64_t n = batch.num_tokens();
  const TensorView embedded = activations.embedded.rows(0, n);
  ops::embedding_forward({.y = embedded,
                          .weight = embedding_.value,
                          .ids = batch.tokens,
                          .scale = config_.embed_scale},
                         ctx);
  if (!config_.embed_norm) return embedded;
  const TensorView normed = activations.embedded_normed.rows(0, n);
  embed_norm_.forward(normed, embedded, activations.embed_norm, ctx);
  return normed;
}

ConstTensorView LanguageModel::final_norm(ConstTensorView x, Activations& activations,
                                          const ExecContext& ctx) const {
  const TensorView normed = activations.final_normed.rows(0, x.dim(0));
  final_norm_.forward(normed, x, activations.final_norm, ctx);
  return normed;
}

ConstTensorView LanguageModel::forward(const nn::Batch& batch, const nn::StepScale& scale,
                                       Activations& activations, const StepRecord& record,
                                       const ExecContext& ctx) const {
  parameters_.before_forward(embedding_unit_);
  ConstTensorView x = embed(batch, activations, ctx);
  parameters_.after_forward(embedding_unit_);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const auto idx = static_cast<std::size_t>(layer);
    parameters_.before_forward(block_units_[idx]);
    x = blocks_[idx].forward(x, batch, scale, activations.blocks[idx], record_of(layer, record),
                             ctx);
    parameters_.after_forward(block_units_[idx]);
  }
  return x;
}

template <class Head>
void LanguageModel::with_head(const Head& head) const {
  parameters_.before_forward(head_unit_);
  if (config_.tied) parameters_.before_forward(embedding_unit_);
  head();
  if (config_.tied) parameters_.after_forward(embedding_unit_);
  parameters_.after_forward(head_unit_);
}

void LanguageModel::forward_backward(const nn::Batch& batch, const nn::StepScale& scale,
                                     Activations& activations, const StepRecord& record,
                                     const ExecContext& ctx) const {
  ULMUS_CHECK(activations.keep == Keep::kTraining, "activations of a forward pass only");
  const ConstTensorView x = forward(batch, scale, activations, record, ctx);
  const TensorView grad_x = activations.grad[0].rows(0, batch.num_tokens());
  parameters_.before_backward(head_unit_);
  if (config_.tied) parameters_.before_backward(embedding_unit_);
  ops::head_loss({.loss_sums = record.loss_sums(),
                  .grad_x = grad_x,
                  .grad_weight = head_.grad,
                  .x = final_norm(x, activations, ctx),
                  .weight = head_.value,
                  .targets = batch.targets,
                  .scale = 1.0 / scale.loss_tokens,
                  .z_coefficient = options_.head_z_loss,
                  .chunk_rows = options_.head_chunk},
                 ctx);
  final_norm_.backward_input(grad_x, grad_x, activations.final_norm, Accumulate::kOverwrite, ctx);
  parameters_.after_backward(head_unit_);
  backward(batch, scale, activations, ctx);
}

void LanguageModel::backward(const nn::Batch& batch, const nn::StepScale& scale,
                             Activations& activations, const ExecContext& ctx) const {
  const std::int64_t n = batch.num_tokens();
  int current = 0;
  const auto grad = [&](int which) { return activations.grad[which].rows(0, n); };
  for (int layer = config_.layers - 1; layer >= 0; --layer) {
    const auto idx = static_cast<std::size_t>(layer);
    const Block& block = blocks_[idx];
    parameters_.before_backward(block_units_[idx]);
    Block::Pending& pending = block.is_moe() ? activations.pending_moe : activations.pending_dense;
    block.backward_input(grad(1 - current), grad(current), batch, scale, activations.blocks[idx],
                         pending, ctx);
    block.backward_weight(activations.blocks[idx], pending, ctx);
    parameters_.after_backward(block_units_[idx]);
    current = 1 - current;
  }
  if (!config_.tied) parameters_.before_backward(embedding_unit_);
  if (config_.embed_norm) {
    embed_norm_.backward_input(grad(current), grad(current), activations.embed_norm,
                               Accumulate::kOverwrite, ctx);
  }
  ops::embedding_backward({.grad_weight = embedding_.grad,
                           .grad_y = grad(current),
                           .ids = batch.tokens,
                           .scale = config_.embed_scale},
                          ctx);
  parameters_.after_backward(embedding_unit_);
}

void LanguageModel::forward_loss(const nn::Batch& batch, const nn::StepScale& scale,
                                 Activations& activations, const StepRecord& record,
                                 const ExecContext& ctx) const {
  const ConstTensorView x = forward(batch, scale, activations, record, ctx);
  with_head([&] {
    ops::head_loss({.loss_sums = record.loss_sums(),
                    .grad_x = {},
                    .grad_weight = {},
                    .x = final_norm(x, activations, ctx),
                    .weight = head_.value,
                    .targets = batch.targets,
                    .scale = 1.0 / scale.loss_tokens,
                    .chunk_rows = options_.head_chunk},
                   ctx);
  });
}

void LanguageModel::forward_logits(TensorView logits, std::int64_t rows_begin,
                                   const nn::Batch& batch, Activations& activations,
                                   const StepRecord& record, const ExecContext& ctx) const {
  const ConstTensorView x = forward(batch, {}, activations, record, ctx);
  with_head([&] {
    const ConstTensorView rows =
        final_norm(x, activations, ctx).rows(rows_begin, rows_begin + logits.dim(0));
    ops::matmul({.out = logits, .a = rows, .b = head_.value}, ctx);
  });
}

LanguageModel::DecodeState LanguageModel::allocate_decode(Arena& arena, std::int64_t max_call,
                                                          std::int64_t max_length) const {
  DecodeState state;
  state.activations = allocate_activations(arena, 1, max_call, Keep::kForward);
  for (const Block& block : blocks_)
    state.caches.push_back(block.allocate_cache(arena, max_length));
  return state;
}

void LanguageModel::decode(TensorView logits, const nn::Batch& batch, DecodeState& state,
                           const StepRecord& record, const ExecContext& ctx) const {
  parameters_.before_forward(embedding_unit_);
  ConstTensorView x = embed(batch, state.activations, ctx);
  parameters_.after_forward(embedding_unit_);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const auto idx = static_cast<std::size_t>(layer);
    parameters_.before_forward(block_units_[idx]);
    x = blocks_[idx].decode(x, batch, state.caches[idx], state.activations.blocks[idx],
                            record_of(layer, record), ctx);
    parameters_.after_forward(block_units_[idx]);
  }
  const ConstTensorView last = x.rows(x.dim(0) - 1, x.dim(0));
  with_head([&] {
    ops::matmul({.out = logits, .a = final_norm(last, state.activations, ctx), .b = head_.value},
                ctx);
  });
}

ParameterCounts count_parameters(const nn::ParameterSet& parameters, const ModelConfig& config) {
  ParameterCounts counts;
  for (const nn::Parameter& parameter : parameters.all()) {
    const std::int64_t numel = parameter.shape.numel();
    counts.total += numel;
    counts.active += parameter.family == nn::ParameterFamily::kExpert
                         ? numel / config.moe.experts * config.moe.top_k
                         : numel;
  }
  return counts;
}

}  // namespace ulmus::model
