#include <algorithm>
#include <array>

#include "ulmus/base/error.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

using optim::ScheduleKind;

/// Keys that only count together with others.
struct Condition {
  std::string_view key;  ///< a key, or a table with its point
  bool (*has_effect)(const Config& config);
  std::string_view why_not;
};

bool has_experts(const Config& config) { return config.model.dense_layers < config.model.layers; }

bool has_layer(const model::ModelConfig& model, model::LayerType type) {
  for (int layer = 0; layer < model.layers; ++layer) {
    if (model.layer_type(layer) == type) return true;
  }
  return false;
}

bool has_yarn(const Config& config) { return config.model.rope.yarn_factor > 1.0; }

bool yarn_has_layers(const Config& config) {
  return config.model.rope.yarn_layers == model::YarnLayers::kAll ||
         has_layer(config.model, model::LayerType::kFull);
}

bool is_windowed(const Config& config) {
  return has_layer(config.model, model::LayerType::kWindow);
}

bool has_schedule(const Config& config, ScheduleKind kind) {
  return std::ranges::any_of(config.optim.phases,
                             [&](const optim::Phase& phase) { return phase.schedule == kind; });
}

bool is_wsd(const Config& config) { return has_schedule(config, ScheduleKind::kWsd); }

bool is_varying(const Config& config) {
  return !std::ranges::all_of(config.optim.phases, [](const optim::Phase& phase) {
    return phase.schedule == ScheduleKind::kConstant;
  });
}

bool evaluates(const Config& config) { return !config.data.eval.empty(); }

bool is_resharded(const Config& config) { return config.parallel.params == Params::kResharded; }

bool loads(const Config& config) { return !config.checkpoint.load.empty(); }

constexpr std::string_view kNoYarn = "model.rope.yarn_factor is 1";
constexpr std::string_view kNoWsd = "optim.schedule is not \"wsd\"";

constexpr std::string_view kResident = "parallel.params is \"resident\"";

constexpr std::array<Condition, 19> kConditions = {{
    {"parallel.reshard", is_resharded, kResident},
    {"parallel.prefetch", is_resharded, kResident},
    {"parallel.expert", has_experts, "every layer is dense (model.dense_layers)"},
    {"parallel.exchange", has_experts, "every layer is dense (model.dense_layers)"},
    {"moe.", has_experts, "every layer is dense (model.dense_layers)"},
    {"model.rope.yarn_original_length", has_yarn, kNoYarn},
    {"model.rope.yarn_beta_fast", has_yarn, kNoYarn},
    {"model.rope.yarn_beta_slow", has_yarn, kNoYarn},
    {"model.rope.yarn_layers", has_yarn, kNoYarn},
    {"model.rope.yarn_factor", yarn_has_layers, "no layer is full (model.rope.yarn_layers)"},
    {"model.window.size", is_windowed,
     "no layer is windowed (model.window.pattern, model.window.last_full)"},
    {"model.window.last_full", [](const Config& c) { return c.model.window.size > 0; },
     "model.window.size is 0"},
    {"optim.decay_fraction", is_wsd, kNoWsd},
    {"optim.decay_shape", is_wsd, kNoWsd},
    {"optim.final_fraction", is_varying, "optim.schedule is \"constant\""},
    {"eval.every", evaluates, "data.eval names no held-out token files"},
    {"eval.tokens", evaluates, "data.eval names no held-out token files"},
    {"checkpoint.async", [](const Config& c) { return c.checkpoint.every > 0; },
     "checkpoint.every is 0"},
    {"checkpoint.load_optimizer", loads, "checkpoint.load is not set"},
}};

/// What the keys are when nobody gives them, for a model of this shape.
Config defaults_for(const Config& config) {
  Config defaults;
  defaults.model = model::family_defaults(config.model.family);
  defaults.model.d_model = config.model.d_model;
  defaults.model.heads = config.model.heads;
  defaults.model.kv_heads = config.model.kv_heads;
  defaults.model.head_dim = config.model.head_dim;
  defaults.model.fill_derived();
  defaults.optim.phases = {optim::Phase{}};
  return defaults;
}

}  // namespace

void check_effects(const Config& config) {
  const Config defaults = defaults_for(config);
  for (const ConfigKey& key : config_keys()) {
    if (!key.write) continue;
    const auto condition = std::ranges::find_if(kConditions, [&](const Condition& known) {
      return known.key.ends_with('.') ? key.name.starts_with(known.key) : key.name == known.key;
    });
    if (condition == kConditions.end() || condition->has_effect(config)) continue;
    const std::string value = key.write(config);
    const std::string neutral = key.write(defaults);
    if (value.empty() || value == neutral) continue;
    fail_input(key.name, " = ", value, ": has no effect, since ", condition->why_not,
               "; leave the key out",
               neutral.empty() ? std::string() : concat(" or give ", neutral));
  }
}

}  // namespace ulmus::train
