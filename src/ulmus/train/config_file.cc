#include "ulmus/train/config_file.h"

#include <algorithm>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/train/config_keys.h"
#include "ulmus/train/config_value.h"

namespace ulmus::train {
namespace {

/// "model.rope" of "model.rope.theta".
std::string_view table_of(std::string_view name) { return name.substr(0, name.rfind('.')); }

/// "theta" of "model.rope.theta".
std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool is_inside(std::string_view name, std::string_view table) {
  return name.size() > table.size() && name.starts_with(table) && name[table.size()] == '.';
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    names.push_back(key.name);
  }
  return names;
}

std::vector<std::string> known_tables() {
  std::vector<std::string> tables;
  for (const ConfigKey& key : config_keys()) {
    for (std::string_view table = table_of(key.name);; table = table_of(table)) {
      if (std::ranges::find(tables, table) == tables.end()) tables.emplace_back(table);
      if (table.find('.') == std::string_view::npos) break;
    }
  }
  return tables;
}

/// What a table may hold, each name without the table's.
std::vector<std::string> names_in(std::string_view table) {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    if (is_inside(key.name, table)) names.push_back(key.name.substr(table.size() + 1));
  }
  return names;
}

/// The likeliest name: the nearest of the same table, the same word in another table, the nearest
/// of all.
std::string suggestion_for(std::string_view name) {
  const std::vector<std::string> names = known_names();
  const std::string_view table = table_of(name);
  const std::string near = nearest_name(last_part(name), names_in(table));
  if (!near.empty()) return std::string(table) + "." + near;
  for (const std::string& known : names) {
    if (last_part(known) == last_part(name)) return known;
  }
  return nearest_name(name, names);
}

[[noreturn]] void fail_unknown(const std::string& name, const ConfigValue& value) {
  const std::vector<std::string> tables = known_tables();
  if (value.kind == ConfigValue::Kind::kTable && name.find('.') == std::string::npos) {
    const std::string near = nearest_name(name, tables);
    fail_value(value, "unknown table " + name,
               (near.empty() ? "" : "; did you mean " + near + "?") + std::string("; tables: ") +
                   join_names(tables));
  }
  const std::string near = suggestion_for(name);
  std::string message = near.empty() ? "" : "; did you mean " + near + "?";
  std::string_view table = table_of(name);
  while (std::ranges::find(tables, table) == tables.end() &&
         table.find('.') != std::string_view::npos) {
    table = table_of(table);
  }
  if (std::ranges::find(tables, table) != tables.end() && table != name) {
    message += concat("; [", table, "] has ", join_names(names_in(table)));
  } else {
    message += "; tables: " + join_names(tables);
  }
  fail_value(value, "unknown key " + name, message);
}

/// Every name in the file is a key of ours.
void check_names(const FlatConfig& flat) {
  const std::vector<std::string> names = known_names();
  const std::vector<std::string> tables = known_tables();
  for (const auto& [name, value] : flat) {
    if (std::ranges::find(names, name) != names.end()) continue;
    if (std::ranges::find(tables, name) != tables.end()) {
      if (value.kind == ConfigValue::Kind::kTable) continue;  // empty, and nothing is wrong with it
      fail_value(value, name, ": is a table of keys, found " + to_toml_text(value));
    }
    for (const std::string& known : names) {
      if (is_inside(name, known)) {
        fail_value(value, name, ": " + known + " is a key, not a table");
      }
    }
    fail_unknown(name, value);
  }
}

void check_required(const FlatConfig& flat, std::string_view source) {
  for (const ConfigKey& key : config_keys()) {
    if (key.required && !flat.contains(key.name)) {
      fail_input(source, ": ", key.name, " is missing (", key.type, ": ", key.meaning, ")");
    }
  }
}

}  // namespace

Config load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return parse_config(read_file(path), path.string(), overrides);
}

Config parse_config(std::string_view text, std::string_view source_name,
                    std::span<const std::string> overrides) {
  FlatConfig flat = parse_toml(text, source_name);
  for (const std::string& argument : overrides) {
    apply_override(flat, argument);
  }
  check_names(flat);
  check_required(flat, source_name);

  Config config;
  config.model = model::family_defaults(config.model.family);
  config.optim.phases = {optim::Phase{}};
  for (const ConfigKey& key : config_keys()) {
    const auto found = flat.find(key.name);
    if (found != flat.end()) key.read(config, found->second);
  }
  try {
    config.model.fill_derived();
    config.validate();
  } catch (const InputError& error) {
    fail_input(source_name, overrides.empty() ? "" : " with --set", ": ", error.what());
  }
  return config;
}

std::string to_toml(const Config& config) {
  std::string text;
  std::string_view open_table;
  for (const ConfigKey& key : config_keys()) {
    const std::string value = key.write ? key.write(config) : std::string();
    if (value.empty()) continue;
    const std::string_view table = std::string_view(key.name).substr(0, key.name.find('.'));
    if (table != open_table) {
      text += concat(text.empty() ? "" : "\n", "[", table, "]\n");
      open_table = table;
    }
    text += concat(key.name.substr(table.size() + 1), " = ", value, "\n");
  }
  return text;
}

}  // namespace ulmus::train
