#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

/// What one process does anyway; everything else is a feature that is not built.
void check_neutral(const ConfigValue& value, const std::string& name, const std::string& neutral) {
  if (to_toml_text(value) == neutral) return;
  fail_value(value, name,
             " = " + to_toml_text(value) + " is not built yet" +
                 (neutral.empty() ? "; leave the key out" : "; built: " + neutral));
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> kKeys = [] {
    KeyTable table;
    add_run_keys(table);
    add_model_keys(table);
    add_moe_keys(table);
    add_data_keys(table);
    add_optim_keys(table);
    add_parallel_keys(table);
    add_machine_keys(table);
    return table.take();
  }();
  return kKeys;
}

ConfigKey KeyTable::make(std::string name, std::string type, KeyText text) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = std::move(type);
  key.meaning = std::move(text.meaning);
  key.default_note = std::move(text.default_note);
  key.built = "yes";
  key.on_resume = text.on_resume;
  key.required = text.required;
  return key;
}

std::string KeyTable::join(const std::string& type, const std::string& range) {
  return range.empty() ? type : type + " " + range;
}

std::string KeyTable::quoted_names(const std::vector<std::string>& names,
                                   const std::vector<std::string>& more) {
  std::string text;
  for (const auto* list : {&names, &more}) {
    for (const std::string& name : *list) {
      text += (text.empty() ? "" : ", ") + to_toml_text(std::string_view(name));
    }
  }
  return text;
}

ConfigKey& KeyTable::add(std::string name, std::string type, KeyText text,
                         std::function<void(Config&, const ConfigValue&)> read,
                         std::function<std::string(const Config&)> write) {
  ConfigKey key = make(std::move(name), std::move(type), std::move(text));
  key.read = std::move(read);
  key.write = std::move(write);
  return keys_.emplace_back(std::move(key));
}

void KeyTable::add_fixed_choice(std::string name, const std::vector<std::string>& not_built,
                                const std::string& neutral, KeyText text) {
  const std::vector<std::string> names = {neutral};
  text.default_note = quoted_names(names);
  ConfigKey key = make(std::move(name), quoted_names(names, not_built), std::move(text));
  key.built = quoted_names(names);
  key.read = [=, key_name = key.name](Config&, const ConfigValue& value) {
    read_choice(value, key_name, names, not_built);
  };
  keys_.push_back(std::move(key));
}

void KeyTable::add_fixed_integer(std::string name, IntegerRange range, std::int64_t neutral,
                                 KeyText text) {
  text.default_note = to_toml_text(neutral);
  ConfigKey key = make(std::move(name), join("integer", range_text(range)), std::move(text));
  key.built = to_toml_text(neutral);
  key.read = [=, key_name = key.name](Config&, const ConfigValue& value) {
    read_integer(value, key_name, range);
    check_neutral(value, key_name, to_toml_text(neutral));
  };
  keys_.push_back(std::move(key));
}

void KeyTable::add_fixed_false(std::string name, KeyText text) {
  text.default_note = "false";
  ConfigKey key = make(std::move(name), "true or false", std::move(text));
  key.built = "false";
  key.read = [key_name = key.name](Config&, const ConfigValue& value) {
    read_boolean(value, key_name);
    check_neutral(value, key_name, "false");
  };
  keys_.push_back(std::move(key));
}

void KeyTable::add_fixed(std::string name, std::string type, const std::string& neutral,
                         KeyText text) {
  text.default_note = neutral.empty() ? "not set" : neutral;
  ConfigKey key = make(std::move(name), std::move(type), std::move(text));
  key.built = neutral.empty() ? "no" : neutral;
  key.read = [=, key_name = key.name](Config&, const ConfigValue& value) {
    check_neutral(value, key_name, neutral);
  };
  keys_.push_back(std::move(key));
}

}  // namespace ulmus::train
