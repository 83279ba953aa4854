// The only file that sees toml++.
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "ulmus/base/error.h"
#include "ulmus/train/config_value.h"

namespace ulmus::train {
namespace {

using Kind = ConfigValue::Kind;

bool is_bare_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string name_part(std::string_view name) {
  return is_bare_name(name) ? std::string(name) : to_toml_text(name);
}

std::string date_text(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& typed) { out << typed; });
  return out.str();
}

class Converter {
 public:
  /// `fixed_place`: of every value; empty: source and line of each.
  Converter(std::string_view source, std::string_view fixed_place)
      : source_(source), fixed_place_(fixed_place) {}

  ConfigValue convert(const toml::node& node) const {
    ConfigValue value;
    value.where = place_of(node);
    if (const auto* table = node.as_table()) {
      value.kind = Kind::kTable;
      for (const auto& [key, child] : *table) {
        value.members.push_back({std::string(key.str()), convert(child)});
      }
    } else if (const auto* array = node.as_array()) {
      value.kind = Kind::kArray;
      for (const toml::node& item : *array) {
        value.items.push_back(convert(item));
      }
    } else {
      convert_scalar(node, value);
    }
    return value;
  }

 private:
  static void convert_scalar(const toml::node& node, ConfigValue& value) {
    if (const auto* text = node.as_string()) {
      value.kind = Kind::kString;
      value.text = text->get();
    } else if (const auto* integer = node.as_integer()) {
      value.kind = Kind::kInteger;
      value.integer = integer->get();
    } else if (const auto* number = node.as_floating_point()) {
      value.kind = Kind::kFloat;
      value.number = number->get();
    } else if (const auto* boolean = node.as_boolean()) {
      value.kind = Kind::kBoolean;
      value.boolean = boolean->get();
    } else {
      value.kind = Kind::kDate;
      value.text = date_text(node);
    }
  }

  std::string place_of(const toml::node& node) const {
    if (!fixed_place_.empty()) return fixed_place_;
    return concat(source_, ":", node.source().begin.line);
  }

  std::string source_;
  std::string fixed_place_;
};

void flatten(FlatConfig& flat, const std::string& name, const ConfigValue& value) {
  if (value.kind != Kind::kTable || value.members.empty()) {
    flat[name] = value;  // an empty table too: it may be a misspelt name
    return;
  }
  for (const auto& [key, child] : value.members) {
    flatten(flat, name + "." + name_part(key), child);
  }
}

bool is_word(std::string_view text) {
  return !text.empty() && text.find_first_of("\"'[]{}#\n\r") == std::string_view::npos;
}

/// The value behind "=" of an override.
ConfigValue parse_override_value(const std::string& raw, const std::string& place) {
  const Converter converter("", place);
  const bool is_one_line = raw.find_first_of("\n\r") == std::string::npos;
  try {
    if (is_one_line) {
      const toml::table table = toml::parse("value = " + raw);
      ConfigValue value = converter.convert(*table.get("value"));
      value.raw = raw;
      return value;
    }
  } catch (const toml::parse_error& error) {
    if (!is_word(raw)) {
      fail_input(place, ": \"", raw, "\" is neither TOML (", error.description(),
                 ") nor a bare word");
    }
  }
  ConfigValue value;
  try {
    const toml::table table = toml::parse("value = " + to_toml_text(std::string_view(raw)));
    value = converter.convert(*table.get("value"));
  } catch (const toml::parse_error& error) {
    fail_input(place, ": ", error.description());
  }
  value.raw = raw;
  return value;
}

/// The parser calls itself for each part of a dotted key; a name of ours has three.
void check_key_depth(std::string_view text, std::string_view source) {
  constexpr auto kMaxParts = 1000;
  int line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    std::string_view line = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    ++line_number;
    line = line.substr(0, line.find('='));
    if (std::ranges::count(line.substr(0, line.find('#')), '.') >= kMaxParts) {
      fail_input(source, ":", line_number, ": a key of more than ", kMaxParts, " parts");
    }
  }
}

void check_override_name(std::string_view name, const std::string& place) {
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    if (!is_bare_name(name.substr(begin, end - begin))) {
      fail_input(place, ": expected a dotted key before \"=\", as in --set moe.top_k=4");
    }
    begin = end + 1;
  }
}

}  // namespace

FlatConfig parse_toml(std::string_view text, std::string_view source) {
  FlatConfig flat;
  check_key_depth(text, source);
  try {
    const toml::table table = toml::parse(text, source);
    const Converter converter(source, "");
    for (const auto& [key, child] : table) {
      flatten(flat, name_part(key.str()), converter.convert(child));
    }
  } catch (const toml::parse_error& error) {
    fail_input(source, ":", error.source().begin.line, ": ", error.description());
  }
  return flat;
}

void apply_override(FlatConfig& flat, const std::string& argument) {
  const std::string place = "--set " + argument;
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    fail_input(place, ": expected key=value, as in --set moe.top_k=4");
  }
  const std::string name = argument.substr(0, equals);
  check_override_name(name, place);
  flatten(flat, name, parse_override_value(argument.substr(equals + 1), place));
}

}  // namespace ulmus::train
