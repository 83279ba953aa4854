#include "ulmus/model/block.h"

#include <fmt/format.h>

#include "ulmus/ops/elementwise.h"

namespace ulmus::model {

using ops::Accumulate;

Block::Block(const Config& config, nn::ParameterSet& parameters)
    : name_(fmt::format("layers.{}", config.layer)),
      dtype_(parameters.dtype()),
      width_(config.model->d_model),
      has_norm_in_(config.model->norm != NormPlacement::kOutput),
      has_norm_out_(config.model->norm != NormPlacement::kPre),
      is_dense_(config.model->is_dense(config.layer)) {
  const ModelConfig& model = *config.model;
  const auto add_norms = [&](const std::string& branch) {
    const nn::RmsNorm::Config norm = {.width = width_, .eps = model.norm_eps};
    Norms norms;
    if (has_norm_in_) norms.in = nn::RmsNorm(norm, parameters, name_ + branch + "_input_norm");
    if (has_norm_out_) norms.out = nn::RmsNorm(norm, parameters, name_ + branch + "_output_norm");
    return norms;
  };
  attention_norms_ = add_norms(".attention");
  attention_ = nn::Attention({.width = width_,
                              .heads = model.heads,
                              .kv_heads = model.kv_heads,
                              .head_width = model.head_dim,
                              .qk_norm = model.qk_norm,
                              .norm_eps = model.norm_eps,
                              .window = model.window_of(config.layer),
                              .init_std = model.init_std,
                              .rope_table = config.rope_table},
                             parameters, name_ + ".attention");
  feed_forward_norms_ = add_norms(".feed_forward");
  if (is_dense_) {
    dense_ =
        nn::FeedForward({.width = width_, .hidden = model.ffn_hidden, .init_std = model.init_std},
                        parameters, name_ + ".feed_forward");
  } else {
    moe_ = nn::Moe({.width = width_,
                    .moe = model.moe,
                    .init_std = model.init_std,
                    .seed = config.seed,
                    .tape = config.tape},
                   *config.exchange, parameters, *config.buffers, name_ + ".moe");
  }
}

Block::BranchSaved Block::allocate_branch(Arena& arena, const std::string& name,
                                          std::int64_t max_tokens) const {
  BranchSaved saved;
  if (has_norm_in_) {
    saved.normed = arena.allocate(name + ".normed", dtype_, {max_tokens, width_});
    saved.norm_in = nn::RmsNorm::allocate(arena, name + ".norm_in", max_tokens, dtype_);
  }
  if (has_norm_out_) {
    saved.y = arena.allocate(name + ".y", dtype_, {max_tokens, width_});
    saved.norm_out = nn::RmsNorm::allocate(arena, name + ".norm_out", max_tokens, dtype_);
  }
  return saved;
}

Block::Saved Block::allocate(Arena& arena, std::int64_t max_sequences,
                             std::int64_t sequence_length) const {
  const std::int64_t max_tokens = max_sequences * sequence_length;
  Saved saved;
  saved.attention_branch = allocate_branch(arena, name_ + ".attention", max_tokens);
  saved.attention = attention_.allocate(arena, name_ + ".attention", max_tokens);
  saved.x_mid = arena.allocate(name_ + ".x_mid", dtype_, {max_tokens, width_});
  saved.feed_forward_branch = allocate_branch(arena, name_ + ".feed_forward", max_tokens);
  if (is_dense_) {
    saved.dense = dense_.allocate(arena, name_ + ".feed_forward", max_tokens);
  } else {
    saved.moe = moe_.allocate(arena, name_ + ".moe", max_sequences, sequence_length);
  }
  saved.x_out = arena.allocate(name_ + ".x_out", dtype_, {max_tokens, width_});
  return saved;
}

Block::Pending Block::allocate_pending(Arena& arena, std::int64_t max_tokens) const {
  const auto rows = [&](const char* part) {
    return arena.allocate(std::string("pending.") + part, dtype_, {max_tokens, width_});
  };
  Pending pending;
  if (has_norm_out_) {
    pending.attention_branch.grad_y = rows("attention.grad_y");
    pending.feed_forward_branch.grad_y = rows("feed_forward.grad_y");
  }
  pending.grad_mid = rows("grad_mid");
  pending.attention = attention_.allocate_pending(arena, "pending.attention", max_tokens);
  if (is_dense_) {
    pending.dense = dense_.allocate_pending(arena, "pending.feed_forward", max_tokens);
  } else {
    pending.moe = moe_.allocate_pending(arena, "pending.moe", max_tokens);
  }
  return pending;
}

ConstTensorView Block::branch_input(ConstTensorView x, const Norms& norms, BranchSaved& saved,
                                    const ExecContext& ctx) const {
  if (!has_norm_in_) return x;
  const TensorView normed = saved.normed.rows(0, x.dim(0));
  norms.in.forward(normed, x, saved.norm_in, ctx);
  return normed;
}

/// sum = x + norm_out(branch(norm_in(x))); branch(y, input) fills y.
template <class Branch>
void Block::add_branch(TensorView sum, ConstTensorView x, const Norms& norms, BranchSaved& saved,
                       const ExecContext& ctx, const Branch& branch) const {
  const ConstTensorView input = branch_input(x, norms, saved, ctx);
  if (has_norm_out_) {
    const TensorView y = saved.y.rows(0, x.dim(0));
    branch(y, input);
    norms.out.forward(sum, y, saved.norm_out, ctx);
  } else {
    branch(sum, input);
  }
  ops::add({.y = sum, .a = sum, .b = x}, ctx);
}

/// grad_x = grad_sum + gradient through the branch; branch(grad_input, grad_y) is its backward.
template <class Branch>
void Block::branch_backward(TensorView grad_x, ConstTensorView grad_sum, const Norms& norms,
                            const BranchSaved& saved, const BranchPending& pending,
                            const ExecContext& ctx, const Branch& branch) const {
  ConstTensorView grad_y = grad_sum;
  if (has_norm_out_) {
    const TensorView normed = pending.grad_y.rows(0, grad_sum.dim(0));
    norms.out.backward_input(normed, grad_sum, saved.norm_out, Accumulate::kOverwrite, ctx);
    grad_y = normed;
  }
  branch(grad_x, grad_y);
  if (has_norm_in_) {
    norms.in.backward_input(grad_x, grad_x, saved.norm_in, Accumulate::kOverwrite, ctx);
  }
  ops::add({.y = grad_x, .a = grad_x, .b = grad_sum}, ctx);
}

void Block::feed_forward(TensorView y, ConstTensorView x, const nn::Batch& batch,
                         const nn::StepScale& scale, Saved& saved, const nn::RouterRecord& record,
                         const ExecContext& ctx) const {
  if (is_dense_) {
    dense_.forward(y, x, saved.dense, ctx);
  } else {
    moe_.forward(y, x, batch, scale, saved.moe, record, ctx);
  }
}

ConstTensorView Block::forward(ConstTensorView x, const nn::Batch& batch,
                               const nn::StepScale& scale, Saved& saved,
                               const nn::RouterRecord& record, const ExecContext& ctx) const {
  const TensorView x_mid = saved.x_mid.rows(0, x.dim(0));
  const TensorView x_out = saved.x_out.rows(0, x.dim(0));
  add_branch(x_mid, x, attention_norms_, saved.attention_branch, ctx,
             [&](TensorView y, ConstTensorView input) {
               attention_.forward(y, input, batch, saved.attention, ctx);
             });
  add_branch(x_out, x_mid, feed_forward_norms_, saved.feed_forward_branch, ctx,
             [&](TensorView y, ConstTensorView input) {
               feed_forward(y, input, batch, scale, saved, record, ctx);
             });
  return x_out;
}

void Block::backward_input(TensorView grad_x, ConstTensorView grad_out, const nn::Batch& batch,
                           const nn::StepScale& scale, const Saved& saved, Pending& pending,
                           const ExecContext& ctx) const {
  const TensorView grad_mid = pending.grad_mid.rows(0, grad_out.dim(0));
  branch_backward(
      grad_mid, grad_out, feed_forward_norms_, saved.feed_forward_branch,
      pending.feed_forward_branch, ctx, [&](TensorView grad_input, ConstTensorView grad_y) {
        if (is_dense_) {
          dense_.backward_input(grad_input, grad_y, saved.dense, pending.dense, ctx);
        } else {
          moe_.backward_input(grad_input, grad_y, batch, scale, saved.moe, pending.moe, ctx);
        }
      });
  branch_backward(grad_x, grad_mid, attention_norms_, saved.attention_branch,
                  pending.attention_branch, ctx,
                  [&](TensorView grad_input, ConstTensorView grad_y) {
                    attention_.backward_input(grad_input, grad_y, batch, saved.attention,
                                              pending.attention, ctx);
                  });
}

void Block::backward_weight(const Saved& saved, const Pending& pending,
                            const ExecContext& ctx) const {
  if (is_dense_) {
    dense_.backward_weight(saved.dense, pending.dense, ctx);
  } else {
    moe_.backward_weight(saved.moe, pending.moe, ctx);
  }
  attention_.backward_weight(saved.attention, pending.attention, ctx);
}

ConstTensorView Block::decode(ConstTensorView x, const nn::Batch& batch, nn::KeyValueCache& cache,
                              Saved& saved, const nn::RouterRecord& record,
                              const ExecContext& ctx) const {
  const TensorView x_mid = saved.x_mid.rows(0, x.dim(0));
  const TensorView x_out = saved.x_out.rows(0, x.dim(0));
  const nn::StepScale scale = {.first_token = cache.length};
  add_branch(x_mid, x, attention_norms_, saved.attention_branch, ctx,
             [&](TensorView y, ConstTensorView input) {
               attention_.decode(y, input, batch, cache, saved.attention, ctx);
             });
  add_branch(x_out, x_mid, feed_forward_norms_, saved.feed_forward_branch, ctx,
             [&](TensorView y, ConstTensorView input) {
               feed_forward(y, input, batch, scale, saved, record, ctx);
             });
  return x_out;
}

nn::KeyValueCache Block::allocate_cache(Arena& arena, std::int64_t max_length) const {
  return attention_.allocate_cache(arena, name_ + ".cache", max_length);
}

}  // namespace ulmus::model
