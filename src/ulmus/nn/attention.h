#pragma once

#include <string>

#include "ulmus/device/exec_context.h"
#include "ulmus/nn/batch.h"
#include "ulmus/nn/parameter.h"
#include "ulmus/nn/rms_norm.h"

namespace ulmus::nn {

/// What the norms of queries and keys run over, before RoPE: nothing, each head's channels, or the
/// whole projection (OLMoE).
enum class QkNorm : std::uint8_t { kNone, kHead, kFull };

/// Keys and values of earlier tokens of one sequence, for generation.
struct KeyValueCache {
  TensorView k;             ///< [max length, G, P], rotated
  TensorView v;             ///< [max length, G, P]
  std::int64_t length = 0;  ///< rows filled
};

/// Multi-head causal self-attention with grouped queries, optional QK-norm, RoPE and windows.
class Attention {
 public:
  struct Config {
    std::int64_t width = 0;       ///< D
    int heads = 0;                ///< H
    int kv_heads = 0;             ///< G
    std::int64_t head_width = 0;  ///< P
    QkNorm qk_norm = QkNorm::kNone;
    double norm_eps = 1e-6;
    std::int64_t window = 0;  ///< 0: full attention
    double init_std = 0.02;
    ConstTensorView rope_table;  ///< [max positions, P]
  };
  struct Params {
    Weight q;    ///< [H P, D]
    Weight k;    ///< [G P, D]
    Weight v;    ///< [G P, D]
    Weight out;  ///< [D, H P]
  };
  struct Saved {
    ConstTensorView x;       ///< [N, D]: set by forward, kept by the caller
    TensorView q_projected;  ///< [max N, H P] before QK-norm; only with a norm
    TensorView k_projected;  ///< [max N, G P] likewise
    TensorView q;            ///< [max N, H P] rotated
    TensorView k;            ///< [max N, G P] rotated
    TensorView v;            ///< [max N, G P]
    TensorView out;          ///< [max N, H P] of the attention core
    TensorView lse;          ///< [max N, H]
    RmsNorm::Saved q_norm;
    RmsNorm::Saved k_norm;
  };
  struct Pending {
    ConstTensorView grad_y;  ///< [N, D]: kept by the caller
    TensorView grad_q;       ///< [max N, H P] of the projection's output
    TensorView grad_k;       ///< [max N, G P]
    TensorView grad_v;       ///< [max N, G P]
  };

  Attention() = default;
  Attention(const Config& config, ParameterSet& parameters, const std::string& name);

  Saved allocate(Arena& arena, const std::string& name, std::int64_t max_tokens) const;
  Pending allocate_pending(Arena& arena, const std::string& name, std::int64_t max_tokens) const;

  /// y [N, D] overwritten.
  void forward(TensorView y, ConstTensorView x, const Batch& batch, Saved& saved,
               const ExecContext& ctx) const;
  /// grad_x [N, D] overwritten; weights of the QK-norms finish here.
  void backward_input(TensorView grad_x, ConstTensorView grad_y, const Batch& batch,
                      const Saved& saved, Pending& pending, const ExecContext& ctx) const;
  void backward_weight(const Saved& saved, const Pending& pending, const ExecContext& ctx) const;

  /// Forward of the next n tokens of one sequence: y [n, D] overwritten, x [n, D] in; their keys
  /// and values are appended to the cache. batch: one sequence, positions continuing the cache.
  /// Error when the cache is full.
  void decode(TensorView y, ConstTensorView x, const Batch& batch, KeyValueCache& cache,
              Saved& saved, const ExecContext& ctx) const;
  KeyValueCache allocate_cache(Arena& arena, const std::string& name,
                               std::int64_t max_length) const;

 private:
  void project(TensorView q, TensorView k, TensorView v, ConstTensorView x, const Batch& batch,
               Saved& saved, const ExecContext& ctx) const;
  void unproject_one(TensorView grad_projected, std::int64_t heads, const RmsNorm& norm,
                     const RmsNorm::Saved& norm_saved, const Batch& batch,
                     const ExecContext& ctx) const;

  Config config_;
  Params params_;
  RmsNorm q_norm_;
  RmsNorm k_norm_;
};

}  // namespace ulmus::nn
