#pragma once

#include <string>

#include "ulmus/model/config.h"
#include "ulmus/nn/attention.h"
#include "ulmus/nn/feed_forward.h"
#include "ulmus/nn/moe/moe.h"
#include "ulmus/nn/rms_norm.h"

namespace ulmus::model {

/// One transformer block: attention and feed-forward (dense or mixture of experts), each a residual
/// branch with the norms that the placement asks for.
///
///   x_mid = x     + norm_out(attention(norm_in(x)))
///   x_out = x_mid + norm_out(feed_forward(norm_in(x_mid)))
class Block {
 public:
  struct Config {
    const ModelConfig* model = nullptr;  ///< outlives the construction only
    int layer = 0;
    std::uint64_t seed = 0;
    ConstTensorView rope_table;
    nn::TokenExchange* exchange = nullptr;  ///< outlives the block
    Arena* buffers = nullptr;               ///< of router state
    nn::RouteTape* tape = nullptr;
  };

  /// One residual branch.
  struct BranchSaved {
    TensorView normed;  ///< [max N, D] input of the branch; without an input norm empty
    TensorView y;       ///< [max N, D] output before its norm; without one empty
    nn::RmsNorm::Saved norm_in;
    nn::RmsNorm::Saved norm_out;
  };
  struct BranchPending {
    TensorView grad_y;  ///< [max N, D] gradient of y; without an output norm empty
  };
  struct Saved {
    BranchSaved attention_branch;
    nn::Attention::Saved attention;
    TensorView x_mid;  ///< [max N, D]
    BranchSaved feed_forward_branch;
    nn::FeedForward::Saved dense;
    nn::Moe::Saved moe;
    TensorView x_out;  ///< [max N, D]
  };
  /// Operands of the weight half; blocks run one after the other share one.
  struct Pending {
    BranchPending attention_branch;
    nn::Attention::Pending attention;
    TensorView grad_mid;  ///< [max N, D]
    BranchPending feed_forward_branch;
    nn::FeedForward::Pending dense;
    nn::Moe::Pending moe;
  };

  Block(const Config& config, nn::ParameterSet& parameters);

  Saved allocate(Arena& arena, std::int64_t max_sequences, std::int64_t sequence_length) const;
  Pending allocate_pending(Arena& arena, std::int64_t max_tokens) const;

  /// Returns x_out [N, D], which lives in `saved`. `record` is read for mixture layers only.
  ConstTensorView forward(ConstTensorView x, const nn::Batch& batch, const nn::StepScale& scale,
                          Saved& saved, const nn::RouterRecord& record,
                          const ExecContext& ctx) const;
  /// grad_x [N, D] overwritten; must not be the memory of grad_out, which the weight half reads.
  void backward_input(TensorView grad_x, ConstTensorView grad_out, const nn::Batch& batch,
                      const nn::StepScale& scale, const Saved& saved, Pending& pending,
                      const ExecContext& ctx) const;
  void backward_weight(const Saved& saved, const Pending& pending, const ExecContext& ctx) const;

  /// Forward of the next tokens of one sequence (nn::Attention::decode): x [n, D] in; returns x_out
  /// [n, D], which lives in `saved`.
  ConstTensorView decode(ConstTensorView x, const nn::Batch& batch, nn::KeyValueCache& cache,
                         Saved& saved, const nn::RouterRecord& record,
                         const ExecContext& ctx) const;
  nn::KeyValueCache allocate_cache(Arena& arena, std::int64_t max_length) const;

  bool is_moe() const { return !is_dense_; }
  const nn::Router& router() const { return moe_.router(); }

 private:
  struct Norms {
    nn::RmsNorm in;
    nn::RmsNorm out;
  };
  BranchSaved allocate_branch(Arena& arena, const std::string& name, std::int64_t max_tokens) const;
  ConstTensorView branch_input(ConstTensorView x, const Norms& norms, BranchSaved& saved,
                               const ExecContext& ctx) const;
  template <class Branch>
  void add_branch(TensorView sum, ConstTensorView x, const Norms& norms, BranchSaved& saved,
                  const ExecContext& ctx, const Branch& branch) const;
  template <class Branch>
  void branch_backward(TensorView grad_x, ConstTensorView grad_sum, const Norms& norms,
                       const BranchSaved& saved, const BranchPending& pending,
                       const ExecContext& ctx, const Branch& branch) const;
  void feed_forward(TensorView y, ConstTensorView x, const nn::Batch& batch,
                    const nn::StepScale& scale, Saved& saved, const nn::RouterRecord& record,
                    const ExecContext& ctx) const;

  std::string name_;
  DType dtype_;
  std::int64_t width_;
  bool has_norm_in_;
  bool has_norm_out_;
  bool is_dense_;
  Norms attention_norms_;
  nn::Attention attention_;
  Norms feed_forward_norms_;
  nn::FeedForward dense_;
  nn::Moe moe_;
};

}  // namespace ulmus::model
