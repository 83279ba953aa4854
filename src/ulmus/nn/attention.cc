#include "ulmus/nn/attention.h"

#include <cmath>

#include "ulmus/ops/attention.h"
#include "ulmus/ops/matmul.h"
#include "ulmus/ops/rope.h"

namespace ulmus::nn {

using ops::Accumulate;
using ops::MatmulForm;

namespace {

/// Rows that a QK-norm sees: whole projections, or one row for each head.
template <class View>
View norm_rows(View projected, QkNorm qk_norm, std::int64_t head_width) {
  if (qk_norm != QkNorm::kHead) return projected;
  return projected.reshape({projected.numel() / head_width, head_width});
}

std::int64_t norm_width(const Attention::Config& config, int heads) {
  return config.qk_norm == QkNorm::kHead ? config.head_width : heads * config.head_width;
}

}  // namespace

Attention::Attention(const Config& config, ParameterSet& parameters, const std::string& name)
    : config_(config) {
  const std::int64_t q_width = config.heads * config.head_width;
  const std::int64_t kv_width = config.kv_heads * config.head_width;
  const Initialization init{.std = config.init_std};
  const auto add = [&](const char* part, const Shape& shape) {
    return parameters.add(name + part, shape, ParameterFamily::kDense, init);
  };
  params_.q = add(".q.weight", {q_width, config.width});
  params_.k = add(".k.weight", {kv_width, config.width});
  params_.v = add(".v.weight", {kv_width, config.width});
  params_.out = add(".out.weight", {config.width, q_width});
  if (config.qk_norm != QkNorm::kNone) {
    q_norm_ = RmsNorm({.width = norm_width(config, config.heads), .eps = config.norm_eps},
                      parameters, name + ".q_norm");
    k_norm_ = RmsNorm({.width = norm_width(config, config.kv_heads), .eps = config.norm_eps},
                      parameters, name + ".k_norm");
  }
}

Attention::Saved Attention::allocate(Arena& arena, const std::string& name,
                                     std::int64_t max_tokens) const {
  const DType dtype = params_.q.value.dtype();
  const std::int64_t q_width = config_.heads * config_.head_width;
  const std::int64_t kv_width = config_.kv_heads * config_.head_width;
  const auto take = [&](const char* part, std::int64_t width) {
    return arena.allocate(name + part, dtype, {max_tokens, width});
  };
  Saved saved;
  saved.q = take(".q", q_width);
  saved.k = take(".k", kv_width);
  saved.v = take(".v", kv_width);
  saved.out = take(".out", q_width);
  saved.lse = take(".lse", config_.heads);
  if (config_.qk_norm != QkNorm::kNone) {
    const bool per_head = config_.qk_norm == QkNorm::kHead;
    saved.q_projected = take(".q_projected", q_width);
    saved.k_projected = take(".k_projected", kv_width);
    saved.q_norm = RmsNorm::allocate(arena, name + ".q_norm",
                                     max_tokens * (per_head ? config_.heads : 1), dtype);
    saved.k_norm = RmsNorm::allocate(arena, name + ".k_norm",
                                     max_tokens * (per_head ? config_.kv_heads : 1), dtype);
  }
  return saved;
}

Attention::Pending Attention::allocate_pending(Arena& arena, const std::string& name,
                                               std::int64_t max_tokens) const {
  const DType dtype = params_.q.value.dtype();
  const std::int64_t kv_width = config_.kv_heads * config_.head_width;
  return {.grad_y = {},
          .grad_q = arena.allocate(name + ".grad_q", dtype,
                                   {max_tokens, config_.heads * config_.head_width}),
          .grad_k = arena.allocate(name + ".grad_k", dtype, {max_tokens, kv_width}),
          .grad_v = arena.allocate(name + ".grad_v", dtype, {max_tokens, kv_width})};
}

void Attention::project(TensorView q, TensorView k, TensorView v, ConstTensorView x,
                        const Batch& batch, Saved& saved, const ExecContext& ctx) const {
  const std::int64_t n = x.dim(0);
  const bool has_norm = config_.qk_norm != QkNorm::kNone;
  const TensorView q_projected = has_norm ? saved.q_projected.rows(0, n) : q;
  const TensorView k_projected = has_norm ? saved.k_projected.rows(0, n) : k;
  ops::matmul({.out = q_projected, .a = x, .b = params_.q.value}, ctx);
  ops::matmul({.out = k_projected, .a = x, .b = params_.k.value}, ctx);
  ops::matmul({.out = v, .a = x, .b = params_.v.value}, ctx);
  if (has_norm) {
    q_norm_.forward(norm_rows(q, config_.qk_norm, config_.head_width),
                    norm_rows<ConstTensorView>(q_projected, config_.qk_norm, config_.head_width),
                    saved.q_norm, ctx);
    k_norm_.forward(norm_rows(k, config_.qk_norm, config_.head_width),
                    norm_rows<ConstTensorView>(k_projected, config_.qk_norm, config_.head_width),
                    saved.k_norm, ctx);
  }
  for (const TensorView& rotated : {q.split_last(config_.heads), k.split_last(config_.kv_heads)}) {
    ops::rope(
        {.y = rotated, .x = rotated, .table = config_.rope_table, .positions = batch.positions},
        ctx);
  }
}

void Attention::forward(TensorView y, ConstTensorView x, const Batch& batch, Saved& saved,
                        const ExecContext& ctx) const {
  const std::int64_t n = x.dim(0);
  saved.x = x;
  const TensorView q = saved.q.rows(0, n);
  const TensorView k = saved.k.rows(0, n);
  const TensorView v = saved.v.rows(0, n);
  const TensorView out = saved.out.rows(0, n);
  project(q, k, v, x, batch, saved, ctx);
  ops::attention_forward(
      {.out = out.split_last(config_.heads),
       .lse = saved.lse.rows(0, n),
       .q = q.split_last(config_.heads),
       .k = k.split_last(config_.kv_heads),
       .v = v.split_last(config_.kv_heads),
       .first_key = batch.first_key,
       .num_sequences = batch.num_sequences,
       .window = config_.window,
       .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_width)),
       .booked_pairs = config_.window > 0 ? batch.pairs_window : batch.pairs_full},
      ctx);
  ops::matmul({.out = y, .a = out, .b = params_.out.value}, ctx);
}

void Attention::unproject_one(TensorView grad_projected, std::int64_t heads, const RmsNorm& norm,
                              const RmsNorm::Saved& norm_saved, const Batch& batch,
                              const ExecContext& ctx) const {
  const TensorView rotated = grad_projected.split_last(heads);
  ops::rope({.y = rotated,
             .x = rotated,
             .table = config_.rope_table,
             .positions = batch.positions,
             .direction = ops::RopeDirection::kBackward},
            ctx);
  if (config_.qk_norm == QkNorm::kNone) return;
  const TensorView rows = norm_rows(grad_projected, config_.qk_norm, config_.head_width);
  norm.backward_input(rows, rows, norm_saved, Accumulate::kOverwrite, ctx);
}

void Attention::backward_input(TensorView grad_x, ConstTensorView grad_y, const Batch& batch,
                               const Saved& saved, Pending& pending, const ExecContext& ctx) const {
  const std::int64_t n = grad_y.dim(0);
  pending.grad_y = grad_y;
  const TensorView grad_q = pending.grad_q.rows(0, n);
  const TensorView grad_k = pending.grad_k.rows(0, n);
  const TensorView grad_v = pending.grad_v.rows(0, n);
  {
    ScratchScope scratch(ctx.workspace);
    const TensorView grad_out =
        scratch.take(grad_y.dtype(), {n, config_.heads * config_.head_width});
    ops::matmul({.out = grad_out, .a = grad_y, .b = params_.out.value, .form = MatmulForm::kNN},
                ctx);
    ops::attention_backward(
        {.grad_q = grad_q.split_last(config_.heads),
         .grad_k = grad_k.split_last(config_.kv_heads),
         .grad_v = grad_v.split_last(config_.kv_heads),
         .grad_out = grad_out.split_last(config_.heads),
         .q = saved.q.rows(0, n).split_last(config_.heads),
         .k = saved.k.rows(0, n).split_last(config_.kv_heads),
         .v = saved.v.rows(0, n).split_last(config_.kv_heads),
         .out = saved.out.rows(0, n).split_last(config_.heads),
         .lse = saved.lse.rows(0, n),
         .first_key = batch.first_key,
         .num_sequences = batch.num_sequences,
         .window = config_.window,
         .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_width)),
         .booked_pairs = config_.window > 0 ? batch.pairs_window : batch.pairs_full},
        ctx);
  }
  unproject_one(grad_q, config_.heads, q_norm_, saved.q_norm, batch, ctx);
  unproject_one(grad_k, config_.kv_heads, k_norm_, saved.k_norm, batch, ctx);
  ops::matmul({.out = grad_x, .a = grad_q, .b = params_.q.value, .form = MatmulForm::kNN}, ctx);
  ops::matmul({.out = grad_x,
               .a = grad_k,
               .b = params_.k.value,
               .form = MatmulForm::kNN,
               .accumulate = Accumulate::kAdd},
              ctx);
  ops::matmul({.out = grad_x,
               .a = grad_v,
               .b = params_.v.value,
               .form = MatmulForm::kNN,
               .accumulate = Accumulate::kAdd},
              ctx);
}

void Attention::backward_weight(const Saved& saved, const Pending& pending,
                                const ExecContext& ctx) const {
  const std::int64_t n = pending.grad_y.dim(0);
  const auto add = [&](const Weight& weight, ConstTensorView grad, ConstTensorView x) {
    ops::matmul({.out = weight.grad,
                 .a = grad,
                 .b = x,
                 .form = MatmulForm::kTN,
                 .accumulate = Accumulate::kAdd},
                ctx);
  };
  add(params_.out, pending.grad_y, saved.out.rows(0, n));
  add(params_.q, pending.grad_q.rows(0, n), saved.x);
  add(params_.k, pending.grad_k.rows(0, n), saved.x);
  add(params_.v, pending.grad_v.rows(0, n), saved.x);
}

KeyValueCache Attention::allocate_cache(Arena& arena, const std::string& name,
                                        std::int64_t max_length) const {
  const Shape shape = {max_length, config_.kv_heads, config_.head_width};
  const DType dtype = params_.k.value.dtype();
  return {.k = arena.allocate(name + ".k", dtype, shape),
          .v = arena.allocate(name + ".v", dtype, shape)};
}

void Attention::decode(TensorView y, ConstTensorView x, const Batch& batch, KeyValueCache& cache,
                       Saved& saved, const ExecContext& ctx) const {
  const std::int64_t n = x.dim(0);
  const std::int64_t end = cache.length + n;
  ULMUS_CHECK(batch.num_sequences == 1 && end <= cache.k.dim(0), "cache of ", cache.k.dim(0),
              " tokens holds ", cache.length, ", ", n, " more in ", batch.num_sequences,
              " sequences");
  const std::int64_t kv_width = config_.kv_heads * config_.head_width;
  const TensorView q = saved.q.rows(0, n);
  project(q, cache.k.rows(cache.length, end).reshape({n, kv_width}),
          cache.v.rows(cache.length, end).reshape({n, kv_width}), x, batch, saved, ctx);
  cache.length = end;
  const TensorView out = saved.out.rows(0, n);
  ops::attention_forward({.out = out.split_last(config_.heads),
                          .lse = saved.lse.rows(0, n),
                          .q = q.split_last(config_.heads),
                          .k = cache.k.rows(0, end),
                          .v = cache.v.rows(0, end),
                          .first_key = batch.first_key,
                          .num_sequences = 1,
                          .window = config_.window,
                          .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_width)),
                          .booked_pairs = n * end},
                         ctx);
  ops::matmul({.out = y, .a = out, .b = params_.out.value}, ctx);
}

}  // namespace ulmus::nn
