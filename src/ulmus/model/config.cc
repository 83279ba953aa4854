#include "ulmus/model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ulmus/base/error.h"

namespace ulmus::model {
namespace {

constexpr int kUnsetWidth = -1;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;
constexpr std::int64_t kMaxVocab = std::numeric_limits<std::int32_t>::max();
constexpr int kMaxLayers = 4096;
constexpr int kMaxHeads = 4096;
constexpr int kMaxExperts = 1 << 16;

ModelConfig olmoe() {
  ModelConfig config;
  config.family = "olmoe";
  config.norm = NormPlacement::kPre;
  config.norm_eps = 1e-5;
  config.qk_norm = nn::QkNorm::kFull;
  config.rope.theta = 10000.0;
  config.init_std = 0.02;
  config.moe.rule.gate = ops::RouterGate::kSoftmax;
  config.moe.rule.weights = ops::RouteWeights::kRaw;
  config.moe.balance_loss = 0.01;
  config.moe.z_loss = 0.001;
  return config;
}

ModelConfig olmo3_moe() {
  ModelConfig config;
  config.family = "olmo3_moe";
  config.norm = NormPlacement::kPeri;
  config.norm_eps = 1e-6;
  config.qk_norm = nn::QkNorm::kHead;
  config.rope.theta = 500000.0;
  config.window.pattern = {};
  config.dense_layers = 1;
  config.embed_scale = 0.0;
  config.embed_norm = true;
  config.init_std = 0.01;
  config.moe.shared_hidden = kUnsetWidth;
  config.moe.rule.gate = ops::RouterGate::kSoftmax;
  config.moe.rule.weights = ops::RouteWeights::kSumToK;
  config.moe.balance_scope = nn::BalanceScope::kMicroBatch;
  config.moe.balance_loss = 0.005;
  config.moe.z_loss = 2e-4;
  return config;
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

void check_range(std::string_view key, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value < min || value > max) {
    fail_input("model.", key, " = ", value, ": must be ", min, " ... ", max);
  }
}

void check_moe_range(std::string_view key, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value < min || value > max) {
    fail_input("moe.", key, " = ", value, ": must be ", min, " ... ", max);
  }
}

/// `written`: the whole key with its table.
void check_positive(std::string_view written, double value) {
  if (!(value > 0.0) || !std::isfinite(value)) {
    fail_input(written, " = ", value, ": must be a finite number > 0");
  }
}

void check_not_negative(std::string_view written, double value) {
  if (!(value >= 0.0) || !std::isfinite(value)) {
    fail_input(written, " = ", value, ": must be a finite number >= 0");
  }
}

void check_attention(const ModelConfig& config) {
  check_range("heads", config.heads, 1, kMaxHeads);
  check_range("kv_heads", config.kv_heads, 1, config.heads);
  if (config.heads % config.kv_heads != 0) {
    fail_input("model.heads = ", config.heads,
               " is not a multiple of model.kv_heads = ", config.kv_heads);
  }
  check_range("head_dim", config.head_dim, 2, kMaxWidth);
  if (config.head_dim % 2 != 0) {
    fail_input("model.head_dim = ", config.head_dim,
               ": must be even (rotary positions turn pairs of channels)");
  }
}

void check_rope(const RopeOptions& rope) {
  if (!(rope.theta > 1.0) || !std::isfinite(rope.theta)) {
    fail_input("model.rope.theta = ", rope.theta, ": must be a finite number > 1");
  }
  if (!(rope.yarn_factor >= 1.0) || !std::isfinite(rope.yarn_factor)) {
    fail_input("model.rope.yarn_factor = ", rope.yarn_factor, ": must be >= 1 (1: no YaRN)");
  }
  if (rope.yarn_original_length < 0) {
    fail_input("model.rope.yarn_original_length = ", rope.yarn_original_length, ": must be >= 0");
  }
  if (rope.yarn_factor > 1.0 && rope.yarn_original_length == 0) {
    fail_input("model.rope.yarn_original_length: needed with model.rope.yarn_factor = ",
               rope.yarn_factor);
  }
  check_positive("model.rope.yarn_beta_slow", rope.yarn_beta_slow);
  if (!(rope.yarn_beta_fast > rope.yarn_beta_slow) || !std::isfinite(rope.yarn_beta_fast)) {
    fail_input("model.rope.yarn_beta_fast = ", rope.yarn_beta_fast,
               ": must be above model.rope.yarn_beta_slow = ", rope.yarn_beta_slow);
  }
}

void check_window(const WindowOptions& window) {
  check_range("window.size", window.size, 0, std::numeric_limits<std::int32_t>::max());
  if (window.pattern.empty()) {
    fail_input("model.window.pattern = []: must name at least one layer type (window, full)");
  }
  const bool has_window =
      std::ranges::find(window.pattern, LayerType::kWindow) != window.pattern.end();
  if (has_window && window.size == 0) {
    fail_input("model.window.size = 0: model.window.pattern has windowed layers and needs a size");
  }
  if (!has_window && window.size > 0) {
    fail_input("model.window.size = ", window.size,
               ": no layer uses it; model.window.pattern has no \"window\"");
  }
}

void check_moe(const nn::MoeConfig& moe) {
  check_moe_range("experts", moe.experts, 1, kMaxExperts);
  if (moe.top_k < 1 || moe.top_k > moe.experts) {
    fail_input("moe.top_k = ", moe.top_k, ": must be 1 ... moe.experts = ", moe.experts);
  }
  check_moe_range("expert_hidden", moe.expert_hidden, 1, kMaxWidth);
  check_moe_range("shared_hidden", moe.shared_hidden, 0, kMaxWidth);
  check_positive("moe.scale", moe.rule.scale);
  check_not_negative("moe.balance_loss", moe.balance_loss);
  check_not_negative("moe.z_loss", moe.z_loss);
  check_not_negative("moe.bias_update", moe.bias_update);
}

}  // namespace

std::vector<std::string> built_families() { return {"olmoe", "olmo3_moe"}; }

std::vector<std::string> planned_families() {
  return {"olmo2", "olmo3", "mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v3"};
}

ModelConfig family_defaults(const std::string& family) {
  if (family == "olmoe") return olmoe();
  if (family == "olmo3_moe") return olmo3_moe();
  const std::vector<std::string> planned = planned_families();
  if (std::ranges::find(planned, family) != planned.end()) {
    fail_input("model.family = \"", family,
               "\" is not built yet; built: ", quoted_list(built_families()));
  }
  const std::string near = nearest_name(family, built_families());
  fail_input("model.family = \"", family, "\": must be one of ", quoted_list(built_families()),
             near.empty() ? "" : "; did you mean \"" + near + "\"?");
}

void ModelConfig::fill_derived() {
  const bool is_olmo3_moe = family == "olmo3_moe";
  if (kv_heads == 0) kv_heads = is_olmo3_moe && heads % 4 == 0 ? heads / 4 : heads;
  if (head_dim == 0 && heads > 0) {
    if (d_model % heads != 0) {
      fail_input("model.d_model = ", d_model, " is not a multiple of model.heads = ", heads,
                 "; give model.head_dim");
    }
    head_dim = d_model / heads;
  }
  if (is_olmo3_moe && embed_scale == 0.0) embed_scale = std::sqrt(static_cast<double>(d_model));
  if (window.pattern.empty()) {
    window.pattern = window.size > 0 ? std::vector{LayerType::kWindow, LayerType::kFull}
                                     : std::vector{LayerType::kFull};
  }
  if (moe.shared_hidden == kUnsetWidth) moe.shared_hidden = moe.expert_hidden;
}

void ModelConfig::validate() const {
  check_range("d_model", d_model, 1, kMaxWidth);
  check_range("layers", layers, 1, kMaxLayers);
  check_attention(*this);
  check_range("vocab", vocab, 1, kMaxVocab);
  check_positive("model.norm_eps", norm_eps);
  check_positive("model.embed_scale", embed_scale);
  check_positive("model.init_std", init_std);
  check_rope(rope);
  check_window(window);
  check_range("dense_layers", dense_layers, 0, layers);
  if (dense_layers > 0 && ffn_hidden == 0) {
    fail_input("model.ffn_hidden: needed for the dense layers (model.dense_layers = ", dense_layers,
               ")");
  }
  check_range("ffn_hidden", ffn_hidden, 0, kMaxWidth);
  if (dense_layers == 0 && ffn_hidden > 0) {
    fail_input("model.ffn_hidden = ", ffn_hidden, ": no layer uses it (model.dense_layers = 0)");
  }
  if (dense_layers < layers) check_moe(moe);
}

LayerType ModelConfig::layer_type(int layer) const {
  if (window.size == 0 || window.pattern.empty()) return LayerType::kFull;
  if (window.last_full && layer == layers - 1) return LayerType::kFull;
  return window.pattern[static_cast<std::size_t>(layer) % window.pattern.size()];
}

ops::RopeConfig ModelConfig::rope_of(LayerType type) const {
  ops::RopeConfig config;
  config.theta = rope.theta;
  if (rope.yarn_layers == YarnLayers::kAll || type == LayerType::kFull) {
    config.factor = rope.yarn_factor;
    config.original_length = static_cast<double>(rope.yarn_original_length);
    config.beta_fast = rope.yarn_beta_fast;
    config.beta_slow = rope.yarn_beta_slow;
  }
  return config;
}

}  // namespace ulmus::model
