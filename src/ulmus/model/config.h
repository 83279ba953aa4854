#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulmus/nn/attention.h"
#include "ulmus/nn/moe/moe.h"
#include "ulmus/ops/rope.h"

namespace ulmus::model {

/// Where a block normalises: before its branches, after them, or both (four norms a block).
///   kPre     x + f(norm(x))
///   kOutput  x + norm(f(x))
///   kPeri    x + norm_out(f(norm_in(x)))
enum class NormPlacement : std::uint8_t { kPre, kOutput, kPeri };

/// Attention span of a layer.
enum class LayerType : std::uint8_t { kFull, kWindow };

/// Which layers YaRN stretches.
enum class YarnLayers : std::uint8_t { kAll, kFull };

struct RopeOptions {
  double theta = 10000.0;
  double yarn_factor = 1.0;  ///< 1: off
  std::int64_t yarn_original_length = 0;
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
  YarnLayers yarn_layers = YarnLayers::kFull;
};

struct WindowOptions {
  std::int64_t size = 0;  ///< keys a windowed layer sees, its own included; 0: no windows
  /// Repeated over the layers; the default is full attention everywhere.
  std::vector<LayerType> pattern = {LayerType::kFull};
  bool last_full = true;  ///< the last layer is full whatever the pattern says
};

/// Everything that the shape and the function of a model depend on ([model] and [moe]).
struct ModelConfig {
  std::string family = "olmoe";
  std::int64_t d_model = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;  ///< divides heads
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  NormPlacement norm = NormPlacement::kPre;
  double norm_eps = 1e-5;
  nn::QkNorm qk_norm = nn::QkNorm::kFull;
  RopeOptions rope;
  WindowOptions window;
  int dense_layers = 0;         ///< the first layers have a dense feed-forward
  std::int64_t ffn_hidden = 0;  ///< its hidden width
  bool tied = false;            ///< the head uses the embedding's weight
  double embed_scale = 1.0;
  bool embed_norm = false;
  double init_std = 0.02;
  nn::MoeConfig moe;  ///< of the other layers

  /// Gives their values to the keys that a family derives from others and that nobody set:
  /// head_dim (d_model / heads), kv_heads, embed_scale, window.pattern, moe.shared_hidden.
  void fill_derived();
  /// InputError naming key, value and what is allowed. After fill_derived.
  void validate() const;
  LayerType layer_type(int layer) const;
  std::int64_t window_of(int layer) const {
    return layer_type(layer) == LayerType::kWindow ? window.size : 0;
  }
  ops::RopeConfig rope_of(LayerType type) const;
  bool is_dense(int layer) const { return layer < dense_layers; }
};

/// The defaults of a family; keys in a file change them. What it derives from other keys is left
/// open (0, -1 or empty) for fill_derived. InputError naming the families that are built when
/// `family` is none of them.
ModelConfig family_defaults(const std::string& family);

/// The families that are built, and those that are named but not built yet.
std::vector<std::string> built_families();
std::vector<std::string> planned_families();

}  // namespace ulmus::model
