#include <algorithm>

#include "ulmus/base/error.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

using optim::DecayShape;
using optim::GroupRule;
using optim::Phase;
using optim::ScheduleKind;

constexpr IntegerRange kSteps{.min = 1, .max = kMaxSteps};
constexpr IntegerRange kPhaseTokens{.min = 1, .max = kMaxTokens};
constexpr IntegerRange kWarmup{.min = 0, .max = kMaxSteps};
constexpr IntegerRange kBatchTokens{.min = 1, .max = kMaxBatchTokens};
constexpr NumberRange kFraction{.min = 0.0, .max = 1.0};
constexpr NumberRange kDecayFraction{.min = 0.0, .max = 1.0, .min_open = true};
constexpr NumberRange kBeta{.min = 0.0, .max = 1.0, .max_open = true};

constexpr ScheduleKind kSchedules[] = {ScheduleKind::kConstant, ScheduleKind::kWsd,
                                       ScheduleKind::kCosine, ScheduleKind::kLinear,
                                       ScheduleKind::kPower};

constexpr DecayShape kDecayShapes[] = {DecayShape::kLinear, DecayShape::kOneMinusSqrt};

template <class Value>
std::vector<std::string> names_of(std::span<const Value> values) {
  std::vector<std::string> names;
  for (const Value value : values) {
    names.emplace_back(name_of(value));
  }
  return names;
}

template <class Value>
Value read_named(const ConfigValue& value, const std::string& key, std::span<const Value> values) {
  const std::string name = read_choice(value, key, names_of(values), {});
  return *std::ranges::find_if(values, [&](Value known) { return name_of(known) == name; });
}

ScheduleKind read_schedule(const ConfigValue& value, const std::string& key) {
  return read_named<ScheduleKind>(value, key, kSchedules);
}

DecayShape read_decay_shape(const ConfigValue& value, const std::string& key) {
  return read_named<DecayShape>(value, key, kDecayShapes);
}

/// One name of a table inside an array.
template <class Item>
struct Field {
  std::string name;
  void (*read)(Item& item, const ConfigValue& value, const std::string& key);
};

template <class Item>
void read_fields(Item& item, const ConfigValue& value, const std::string& key,
                 std::span<const Field<Item>> fields) {
  if (value.kind != ConfigValue::Kind::kTable) fail_type(value, key, "a table");
  for (const auto& [name, member] : value.members) {
    const auto field =
        std::ranges::find_if(fields, [&](const Field<Item>& known) { return known.name == name; });
    if (field == fields.end()) {
      std::vector<std::string> names;
      for (const Field<Item>& known : fields) {
        names.push_back(known.name);
      }
      const std::string near = nearest_name(name, names);
      fail_value(member, concat("unknown key ", key, ".", name),
                 concat(near.empty() ? "" : concat("; did you mean ", near, "?"), "; it has ",
                        join_names(names)));
    }
    field->read(item, member, concat(key, ".", name));
  }
}

const std::vector<Field<Phase>>& phase_fields() {
  using Value = const ConfigValue&;
  using Key = const std::string&;
  static const std::vector<Field<Phase>> kFields = {
      {"steps", [](Phase& p, Value v, Key k) { p.steps = read_integer(v, k, kSteps); }},
      {"tokens", [](Phase& p, Value v, Key k) { p.tokens = read_integer(v, k, kPhaseTokens); }},
      {"lr", [](Phase& p, Value v, Key k) { p.lr = read_number(v, k, kAbove); }},
      {"schedule", [](Phase& p, Value v, Key k) { p.schedule = read_schedule(v, k); }},
      {"warmup", [](Phase& p, Value v, Key k) { p.warmup = read_integer(v, k, kWarmup); }},
      {"final_fraction",
       [](Phase& p, Value v, Key k) { p.final_fraction = read_number(v, k, kFraction); }},
      {"decay_fraction",
       [](Phase& p, Value v, Key k) { p.decay_fraction = read_number(v, k, kDecayFraction); }},
      {"decay_shape", [](Phase& p, Value v, Key k) { p.decay_shape = read_decay_shape(v, k); }},
      {"batch_tokens",
       [](Phase& p, Value v, Key k) { p.batch_tokens = read_integer(v, k, kBatchTokens); }},
  };
  return kFields;
}

const std::vector<Field<GroupRule>>& group_fields() {
  using Value = const ConfigValue&;
  using Key = const std::string&;
  static const std::vector<Field<GroupRule>> kFields = {
      {"match", [](GroupRule& g, Value v, Key k) { g.match = read_string(v, k); }},
      {"lr_scale", [](GroupRule& g, Value v, Key k) { g.lr_scale = read_number(v, k, kAtLeast); }},
      {"weight_decay",
       [](GroupRule& g, Value v, Key k) { g.weight_decay = read_number(v, k, kAtLeast); }},
  };
  return kFields;
}

/// A phase says what is different in it; the rest is that of optim.lr and its neighbours.
void read_phases(Config& config, const ConfigValue& value) {
  const std::string key = "optim.phases";
  const Phase base = config.optim.phases.empty() ? Phase{} : config.optim.phases.front();
  std::vector<Phase> phases;
  for (const ConfigValue& item : read_array(value, key)) {
    Phase phase = base;
    read_fields<Phase>(phase, item, concat(key, "[", phases.size(), "]"), phase_fields());
    phases.push_back(phase);
  }
  if (!phases.empty()) config.optim.phases = phases;
}

void read_groups(Config& config, const ConfigValue& value) {
  const std::string key = "optim.groups";
  config.optim.groups.clear();
  for (const ConfigValue& item : read_array(value, key)) {
    const std::string item_key = concat(key, "[", config.optim.groups.size(), "]");
    GroupRule rule;
    read_fields<GroupRule>(rule, item, item_key, group_fields());
    if (rule.match.empty()) fail_value(item, item_key + ".match", " is missing");
    config.optim.groups.push_back(rule);
  }
}

/// A run of one phase is written as optim.lr and its neighbours.
bool is_flat(const Config& config) {
  const std::vector<Phase>& phases = config.optim.phases;
  return phases.size() == 1 && !phases[0].steps && !phases[0].tokens && phases[0].batch_tokens == 0;
}

std::string phase_text(const Phase& phase) {
  std::string text;
  if (phase.steps) text += concat("steps = ", *phase.steps, ", ");
  if (phase.tokens) text += concat("tokens = ", *phase.tokens, ", ");
  text += concat("lr = ", to_toml_text(phase.lr), ", schedule = \"", name_of(phase.schedule),
                 "\", warmup = ", phase.warmup,
                 ", final_fraction = ", to_toml_text(phase.final_fraction),
                 ", decay_fraction = ", to_toml_text(phase.decay_fraction), ", decay_shape = \"",
                 name_of(phase.decay_shape), "\"");
  if (phase.batch_tokens > 0) text += concat(", batch_tokens = ", phase.batch_tokens);
  return "{" + text + "}";
}

std::string group_text(const GroupRule& rule) {
  std::string text = concat("match = ", to_toml_text(std::string_view(rule.match)),
                            ", lr_scale = ", to_toml_text(rule.lr_scale));
  if (rule.weight_decay) text += concat(", weight_decay = ", to_toml_text(*rule.weight_decay));
  return "{" + text + "}";
}

template <class Item>
std::string array_text(const std::vector<Item>& items, std::string (*item_text)(const Item&)) {
  std::string text;
  for (const Item& item : items) {
    text += (text.empty() ? "" : ", ") + item_text(item);
  }
  return text.empty() ? text : "[" + text + "]";
}

/// A key of the one phase of a run without optim.phases.
template <class Read, class Write>
void add_phase_key(KeyTable& table, const std::string& name, const std::string& type, KeyText text,
                   Read read, Write write) {
  text.on_resume = OnResume::kMay;
  table.add(
      name, type, std::move(text),
      [name, read](Config& config, const ConfigValue& value) {
        if (config.optim.phases.empty()) config.optim.phases.emplace_back();
        read(config.optim.phases.front(), value, name);
      },
      [write](const Config& config) {
        return is_flat(config) ? write(config.optim.phases.front()) : std::string();
      });
}

void add_schedule_keys(KeyTable& table) {
  using Value = const ConfigValue&;
  using Key = const std::string&;
  add_phase_key(
      table, "optim.lr", "number > 0",
      {.meaning = "peak learning rate", .default_note = "required, here or in every phase"},
      [](Phase& p, Value v, Key k) { p.lr = read_number(v, k, kAbove); },
      [](const Phase& p) { return p.lr > 0.0 ? to_toml_text(p.lr) : std::string(); });
  add_phase_key(
      table, "optim.schedule", KeyTable::quoted_names(names_of<ScheduleKind>(kSchedules)),
      {.meaning = "shape of the learning rate after the warm-up"},
      [](Phase& p, Value v, Key k) { p.schedule = read_schedule(v, k); },
      [](const Phase& p) { return to_toml_text(name_of(p.schedule)); });
  add_phase_key(
      table, "optim.warmup", "integer >= 0", {.meaning = "steps of linear rise to lr"},
      [](Phase& p, Value v, Key k) { p.warmup = read_integer(v, k, kWarmup); },
      [](const Phase& p) { return to_toml_text(p.warmup); });
  add_phase_key(
      table, "optim.final_fraction", "number " + range_text(kFraction),
      {.meaning = "learning rate at the end, as a fraction of lr"},
      [](Phase& p, Value v, Key k) { p.final_fraction = read_number(v, k, kFraction); },
      [](const Phase& p) { return to_toml_text(p.final_fraction); });
  add_phase_key(
      table, "optim.decay_fraction", "number " + range_text(kDecayFraction),
      {.meaning = "last part of the steps in which \"wsd\" decays"},
      [](Phase& p, Value v, Key k) { p.decay_fraction = read_number(v, k, kDecayFraction); },
      [](const Phase& p) { return to_toml_text(p.decay_fraction); });
  add_phase_key(
      table, "optim.decay_shape", KeyTable::quoted_names(names_of<DecayShape>(kDecayShapes)),
      {.meaning = "how \"wsd\" comes down"},
      [](Phase& p, Value v, Key k) { p.decay_shape = read_decay_shape(v, k); },
      [](const Phase& p) { return to_toml_text(name_of(p.decay_shape)); });
}

void add_adamw_keys(KeyTable& table) {
  table.add(
      "optim.betas", "array of two numbers " + range_text(kBeta),
      {.meaning = "decay of AdamW's two moments"},
      [](Config& config, const ConfigValue& value) {
        const auto items = read_array(value, "optim.betas");
        if (items.size() != 2) fail_type(value, "optim.betas", "two numbers");
        config.optim.beta1 = read_number(items[0], "optim.betas", kBeta);
        config.optim.beta2 = read_number(items[1], "optim.betas", kBeta);
      },
      [](const Config& config) {
        return concat("[", to_toml_text(config.optim.beta1), ", ", to_toml_text(config.optim.beta2),
                      "]");
      });
  table.add_number("optim.eps", [](auto& c) -> auto& { return c.optim.eps; }, kAbove,
                   {.meaning = "AdamW's epsilon"});
  table.add_number("optim.weight_decay", [](auto& c) -> auto& { return c.optim.weight_decay; },
                   kAtLeast,
                   {.meaning = "decoupled decay; not of norms and embeddings unless a group says "
                               "so"});
}

void add_guard_keys(KeyTable& table) {
  constexpr OnResume kMay = OnResume::kMay;
  table.add_number(
      "optim.clip", [](auto& c) -> auto& { return c.optim.clip; }, kAtLeast,
      {.meaning = "largest global norm of the gradient; 0: no clipping", .on_resume = kMay});
  table.add_number("optim.skip_sigma", [](auto& c) -> auto& { return c.optim.skip_sigma; },
                   kAtLeast,
                   {.meaning = "a step whose loss or norm lies so many standard deviations above "
                               "the last ones is skipped; 0: none",
                    .on_resume = kMay});
  table.add_number("optim.head_z_loss", [](auto& c) -> auto& { return c.optim.head_z_loss; },
                   kAtLeast, {.meaning = "weight of the z-loss of the head's logits"});
  table.add_integer("optim.max_nonfinite", [](auto& c) -> auto& { return c.optim.max_nonfinite; },
                    {.min = 1},
                    {.meaning = "so many steps in a row without a finite loss or gradient end the "
                                "run",
                     .on_resume = kMay});
}

}  // namespace

void add_optim_keys(KeyTable& table) {
  add_schedule_keys(table);
  add_adamw_keys(table);
  add_guard_keys(table);
  table.add("optim.groups", "array of {match, lr_scale, weight_decay}",
            {.meaning = "parameters whose name matches (`*` stands for anything) get another "
                        "learning rate or decay; the first match counts",
             .default_note = "[]"},
            read_groups,
            [](const Config& config) { return array_text(config.optim.groups, group_text); });
  table.add(
      "optim.phases",
      "array of {steps, tokens, lr, schedule, warmup, final_fraction, decay_fraction, decay_shape, "
      "batch_tokens}",
      {.meaning = "stretches of the run with their own curve and batch, each so many steps or "
                  "tokens long; a phase takes from `[optim]` and `[batch]` what it does not say; "
                  "the last may leave its length out",
       .on_resume = OnResume::kMay,
       .default_note = "[]: one phase"},
      read_phases, [](const Config& config) {
        return is_flat(config) ? std::string() : array_text(config.optim.phases, phase_text);
      });
}

}  // namespace ulmus::train
