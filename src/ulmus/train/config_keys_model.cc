#include <cmath>

#include "ulmus/model/config.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

using model::LayerType;

std::vector<LayerType> read_pattern(const ConfigValue& value, const std::string& key) {
  static const std::vector<std::string> kNames = {"window", "full"};
  std::vector<LayerType> pattern;
  for (const ConfigValue& item : read_array(value, key)) {
    pattern.push_back(read_choice(item, key, kNames, {}) == "window" ? LayerType::kWindow
                                                                     : LayerType::kFull);
  }
  if (pattern.empty()) fail_value(value, key, " = []: must name at least one layer type");
  return pattern;
}

std::string pattern_text(const std::vector<LayerType>& pattern) {
  std::string text;
  for (const LayerType type : pattern) {
    text += text.empty() ? "" : ", ";
    text += type == LayerType::kWindow ? "\"window\"" : "\"full\"";
  }
  return "[" + text + "]";
}

void add_shape_keys(KeyTable& table) {
  table.add_integer("model.d_model", [](auto& c) -> auto& { return c.model.d_model; }, kPositive,
                    {.meaning = "width of the residual stream", .required = true});
  table.add_integer("model.layers", [](auto& c) -> auto& { return c.model.layers; }, kPositive,
                    {.meaning = "blocks", .required = true});
  table.add_integer("model.heads", [](auto& c) -> auto& { return c.model.heads; }, kPositive,
                    {.meaning = "query heads", .required = true});
  table.add_integer("model.kv_heads", [](auto& c) -> auto& { return c.model.kv_heads; }, kPositive,
                    {.meaning = "key and value heads; divides heads",
                     .default_note = "heads; olmo3_moe: heads / 4 where 4 divides heads"});
  table.add_integer("model.head_dim", [](auto& c) -> auto& { return c.model.head_dim; }, {.min = 2},
                    {.meaning = "channels of a head; even", .default_note = "d_model / heads"});
  table.add_integer(
      "model.vocab", [](auto& c) -> auto& { return c.model.vocab; }, kPositive,
      {.meaning = "rows of the embedding; at least the tokenizer's size", .required = true});
}

void add_norm_keys(KeyTable& table) {
  table.add_choice<model::NormPlacement>(
      "model.norm", [](auto& c) -> auto& { return c.model.norm; },
      {{"pre", model::NormPlacement::kPre},
       {"output", model::NormPlacement::kOutput},
       {"peri", model::NormPlacement::kPeri}},
      {}, {.meaning = "RMSNorm before each branch, after it, or both"});
  table.add_number("model.norm_eps", [](auto& c) -> auto& { return c.model.norm_eps; }, kAbove,
                   {.meaning = "epsilon of every RMSNorm"});
  table.add_choice<nn::QkNorm>(
      "model.qk_norm", [](auto& c) -> auto& { return c.model.qk_norm; },
      {{"none", nn::QkNorm::kNone}, {"head", nn::QkNorm::kHead}, {"full", nn::QkNorm::kFull}}, {},
      {.meaning = "norm of queries and keys: none, each head, the whole projection"});
}

void add_rope_keys(KeyTable& table) {
  table.add_number("model.rope.theta", [](auto& c) -> auto& { return c.model.rope.theta; },
                   {.min = 1.0, .min_open = true}, {.meaning = "base of the rotary frequencies"});
  table.add_number("model.rope.yarn_factor",
                   [](auto& c) -> auto& { return c.model.rope.yarn_factor; }, {.min = 1.0},
                   {.meaning = "YaRN: how many times longer the context becomes; 1 is off"});
  table.add_integer("model.rope.yarn_original_length",
                    [](auto& c) -> auto& { return c.model.rope.yarn_original_length; },
                    kNotNegative,
                    {.meaning = "YaRN: context length before; needed with a factor above 1"});
  table.add_number("model.rope.yarn_beta_fast",
                   [](auto& c) -> auto& { return c.model.rope.yarn_beta_fast; }, kAbove,
                   {.meaning = "YaRN: rotations above which a channel keeps its frequency"});
  table.add_number("model.rope.yarn_beta_slow",
                   [](auto& c) -> auto& { return c.model.rope.yarn_beta_slow; }, kAbove,
                   {.meaning = "YaRN: rotations below which a channel is fully interpolated"});
  table.add_choice<model::YarnLayers>(
      "model.rope.yarn_layers", [](auto& c) -> auto& { return c.model.rope.yarn_layers; },
      {{"full", model::YarnLayers::kFull}, {"all", model::YarnLayers::kAll}}, {},
      {.meaning = "YaRN: layers with full attention, or all"});
}

void add_window_keys(KeyTable& table) {
  table.add_integer("model.window.size", [](auto& c) -> auto& { return c.model.window.size; },
                    kNotNegative,
                    {.meaning = "tokens that a windowed layer sees, the current one included; "
                                "0: every layer is full"});
  table.add(
      "model.window.pattern", "array of \"window\", \"full\"",
      {.meaning = "layer types, repeated over the layers",
       .default_note = "[\"full\"]; olmo3_moe with a size: [\"window\", \"full\"]"},
      [](Config& config, const ConfigValue& value) {
        config.model.window.pattern = read_pattern(value, "model.window.pattern");
      },
      [](const Config& config) { return pattern_text(config.model.window.pattern); });
  table.add_boolean("model.window.last_full",
                    [](auto& c) -> auto& { return c.model.window.last_full; },
                    {.meaning = "the last layer is full whatever the pattern says"});
}

void add_rest(KeyTable& table) {
  table.add_integer("model.dense_layers", [](auto& c) -> auto& { return c.model.dense_layers; },
                    kNotNegative,
                    {.meaning = "so many first layers have a dense feed-forward, no experts"});
  table.add_integer("model.ffn_hidden", [](auto& c) -> auto& { return c.model.ffn_hidden; },
                    kNotNegative, {.meaning = "hidden width of the dense feed-forward"});
  table.add_boolean("model.tied", [](auto& c) -> auto& { return c.model.tied; },
                    {.meaning = "the head uses the embedding's weight"});
  table.add_number("model.embed_scale", [](auto& c) -> auto& { return c.model.embed_scale; },
                   kAbove,
                   {.meaning = "multiplies the embedding's rows",
                    .default_note = "1.0; olmo3_moe: sqrt(d_model)"});
  table.add_boolean("model.embed_norm", [](auto& c) -> auto& { return c.model.embed_norm; },
                    {.meaning = "RMSNorm of the scaled embedding"});
  table.add_number("model.init_std", [](auto& c) -> auto& { return c.model.init_std; }, kAbove,
                   {.meaning = "standard deviation of initial weights (normal, cut at 3 of them)"});
}

void add_expert_keys(KeyTable& table) {
  table.add_integer("moe.experts", [](auto& c) -> auto& { return c.model.moe.experts; }, kPositive,
                    {.meaning = "experts of each layer that is not dense",
                     .default_note = "required unless all layers are dense",
                     .zero_is_unset = true});
  table.add_integer("moe.top_k", [](auto& c) -> auto& { return c.model.moe.top_k; }, kPositive,
                    {.meaning = "experts for each token",
                     .default_note = "required unless all layers are dense",
                     .zero_is_unset = true});
  table.add_integer("moe.expert_hidden", [](auto& c) -> auto& { return c.model.moe.expert_hidden; },
                    kPositive,
                    {.meaning = "hidden width of an expert",
                     .default_note = "required unless all layers are dense",
                     .zero_is_unset = true});
  table.add_integer("moe.shared_hidden", [](auto& c) -> auto& { return c.model.moe.shared_hidden; },
                    kNotNegative,
                    {.meaning = "hidden width of the shared expert; 0: none",
                     .default_note = "0; olmo3_moe: expert_hidden"});
  table.add_fixed_false("moe.shared_gate", {.meaning = "a learned gate on the shared expert"});
}

void add_router_keys(KeyTable& table) {
  table.add_choice<ops::RouterGate>(
      "moe.gate", [](auto& c) -> auto& { return c.model.moe.rule.gate; },
      {{"softmax", ops::RouterGate::kSoftmax}, {"sigmoid", ops::RouterGate::kSigmoid}}, {},
      {.meaning = "how router logits become scores"});
  table.add_fixed_integer("moe.groups", kPositive, 1,
                          {.meaning = "expert groups of the selection"});
  table.add_fixed_integer("moe.group_top_k", kPositive, 1,
                          {.meaning = "groups that a token may choose from"});
  table.add_choice<ops::RouteWeights>(
      "moe.weights", [](auto& c) -> auto& { return c.model.moe.rule.weights; },
      {{"raw", ops::RouteWeights::kRaw},
       {"sum_to_one", ops::RouteWeights::kSumToOne},
       {"sum_to_k", ops::RouteWeights::kSumToK}},
      {}, {.meaning = "how the chosen scores become weights of the sum over experts"});
  table.add_number("moe.scale", [](auto& c) -> auto& { return c.model.moe.rule.scale; }, kAbove,
                   {.meaning = "multiplies every weight"});
  table.add_choice<nn::Routing>("moe.routing", [](auto& c) -> auto& { return c.model.moe.routing; },
                                {{"learned", nn::Routing::kLearned},
                                 {"random", nn::Routing::kRandom},
                                 {"uniform", nn::Routing::kUniform}},
                                {},
                                {.meaning = "routes of the router, or forced ones for benchmarks"});
}

void add_loss_keys(KeyTable& table) {
  table.add_number("moe.balance_loss", [](auto& c) -> auto& { return c.model.moe.balance_loss; },
                   kAtLeast, {.meaning = "weight of each layer's balance loss"});
  table.add_choice<nn::BalanceScope>("moe.balance_scope",
                                     [](auto& c) -> auto& { return c.model.moe.balance_scope; },
                                     {{"sequence", nn::BalanceScope::kSequence},
                                      {"micro_batch", nn::BalanceScope::kMicroBatch},
                                      {"step", nn::BalanceScope::kStep}},
                                     {}, {.meaning = "over what the balance loss counts routes"});
  table.add_number("moe.z_loss", [](auto& c) -> auto& { return c.model.moe.z_loss; }, kAtLeast,
                   {.meaning = "weight of each layer's router z-loss"});
  table.add_number("moe.bias_update", [](auto& c) -> auto& { return c.model.moe.bias_update; },
                   kAtLeast,
                   {.meaning = "rate of the loss-free balancing of the selection; 0: off"});
  table.add_fixed_choice("moe.overflow", {"drop"}, "replay",
                         {.meaning = "what happens when planned rows do not suffice"});
  table.add_fixed("moe.capacity", "\"auto\" or number > 0", "\"auto\"",
                  {.meaning = "planned rows over the mean"});
  table.add_fixed_choice("moe.drop_order", {"rotating"}, "prefix",
                         {.meaning = "which routes a full buffer drops"});
}

}  // namespace

void add_model_keys(KeyTable& table) {
  const std::vector<std::string> built = model::built_families();
  ConfigKey& family = table.add(
      "model.family", KeyTable::quoted_names(built, model::planned_families()),
      {.meaning = "gives the other keys of `[model]` and `[moe]` their defaults"},
      [](Config& config, const ConfigValue& value) {
        config.model = model::family_defaults(
            read_choice(value, "model.family", model::built_families(), model::planned_families()));
      },
      [](const Config& config) { return to_toml_text(std::string_view(config.model.family)); });
  family.built = KeyTable::quoted_names(built);
  add_shape_keys(table);
  add_norm_keys(table);
  add_rope_keys(table);
  add_window_keys(table);
  add_rest(table);
}

void add_moe_keys(KeyTable& table) {
  add_expert_keys(table);
  add_router_keys(table);
  add_loss_keys(table);
}

}  // namespace ulmus::train
