#include "ulmus/train/config_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ulmus/base/error.h"

namespace ulmus::train {
namespace {

using Kind = ConfigValue::Kind;

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kBoolean:
      return "boolean";
    case Kind::kInteger:
      return "integer";
    case Kind::kFloat:
      return "number";
    case Kind::kString:
      return "string";
    case Kind::kDate:
      return "date or time";
    case Kind::kArray:
      return "array";
    case Kind::kTable:
      return "table";
  }
  return "";
}

std::string number_text(double value) { return fmt::format("{}", value); }

}  // namespace

std::string to_toml_text(bool value) { return value ? "true" : "false"; }

std::string to_toml_text(std::int64_t value) { return fmt::format("{}", value); }

std::string to_toml_text(double value) {
  std::string text = number_text(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml_text(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\u{:04X}", byte);
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string to_toml_text(const ConfigValue& value) {
  switch (value.kind) {
    case Kind::kBoolean:
      return to_toml_text(value.boolean);
    case Kind::kInteger:
      return to_toml_text(value.integer);
    case Kind::kFloat:
      return to_toml_text(value.number);
    case Kind::kString:
      return to_toml_text(std::string_view(value.text));
    case Kind::kDate:
      return value.text;
    case Kind::kArray:
    case Kind::kTable:
      break;
  }
  std::string text;
  for (const ConfigValue& item : value.items) {
    text += (text.empty() ? "" : ", ") + to_toml_text(item);
  }
  for (const auto& [name, member] : value.members) {
    text += (text.empty() ? "" : ", ") + name + " = " + to_toml_text(member);
  }
  return value.kind == Kind::kArray ? "[" + text + "]" : "{" + text + "}";
}

std::string range_text(const IntegerRange& range) {
  const IntegerRange all;
  if (range.min == all.min && range.max == all.max) return "";
  if (range.max == all.max) return fmt::format(">= {}", range.min);
  if (range.min == all.min) return fmt::format("<= {}", range.max);
  return fmt::format("{} ... {}", range.min, range.max);
}

std::string range_text(const NumberRange& range) {
  const NumberRange all;
  const bool has_min = range.min > all.min;
  const bool has_max = range.max < all.max;
  std::string text;
  if (has_min) text += (range.min_open ? "> " : ">= ") + number_text(range.min);
  if (has_min && has_max) text += ", ";
  if (has_max) text += (range.max_open ? "< " : "<= ") + number_text(range.max);
  return text;
}

void fail_value(const ConfigValue& value, std::string_view key, const std::string& message) {
  fail_input(value.where, ": ", key, message);
}

void fail_type(const ConfigValue& value, std::string_view key, std::string_view expected) {
  fail_value(
      value, key,
      concat(": expected ", expected, ", found ", kind_name(value.kind), " ", to_toml_text(value)));
}

std::int64_t read_integer(const ConfigValue& value, std::string_view key,
                          const IntegerRange& range) {
  if (value.kind == Kind::kFloat && std::floor(value.number) == value.number &&
      std::abs(value.number) < 9e18) {
    fail_type(value, key,
              concat("an integer (write ", static_cast<std::int64_t>(value.number),
                     "; underscores between digits are allowed)"));
  }
  if (value.kind != Kind::kInteger) fail_type(value, key, "an integer");
  if (value.integer < range.min || value.integer > range.max) {
    fail_value(value, key, concat(" = ", value.integer, ": must be ", range_text(range)));
  }
  return value.integer;
}

double read_number(const ConfigValue& value, std::string_view key, const NumberRange& range) {
  if (value.kind != Kind::kFloat && value.kind != Kind::kInteger) {
    fail_type(value, key, "a number");
  }
  const double number =
      value.kind == Kind::kFloat ? value.number : static_cast<double>(value.integer);
  if (!std::isfinite(number)) {
    fail_value(value, key, concat(" = ", to_toml_text(value), ": must be a finite number"));
  }
  const bool is_low = range.min_open ? number <= range.min : number < range.min;
  const bool is_high = range.max_open ? number >= range.max : number > range.max;
  if (is_low || is_high) {
    fail_value(value, key, concat(" = ", to_toml_text(value), ": must be ", range_text(range)));
  }
  return number;
}

bool read_boolean(const ConfigValue& value, std::string_view key) {
  if (value.kind != Kind::kBoolean) fail_type(value, key, "true or false");
  return value.boolean;
}

std::string read_string(const ConfigValue& value, std::string_view key) {
  if (value.kind == Kind::kString) return value.text;
  const bool is_scalar = value.kind != Kind::kArray && value.kind != Kind::kTable;
  if (is_scalar && !value.raw.empty()) return value.raw;  // --set run.name=7
  fail_type(value, key, "a string");
}

std::span<const ConfigValue> read_array(const ConfigValue& value, std::string_view key) {
  if (value.kind != Kind::kArray) fail_type(value, key, "an array");
  return value.items;
}

std::vector<std::string> read_strings(const ConfigValue& value, std::string_view key) {
  if (value.kind == Kind::kString) return {value.text};
  if (value.kind != Kind::kArray) fail_type(value, key, "an array of strings");
  std::vector<std::string> strings;
  strings.reserve(value.items.size());
  for (const ConfigValue& item : value.items) {
    strings.push_back(read_string(item, key));
  }
  return strings;
}

std::string read_choice(const ConfigValue& value, std::string_view key,
                        std::span<const std::string> names,
                        std::span<const std::string> not_built) {
  const std::string name = read_string(value, key);
  if (std::ranges::find(names, name) != names.end()) return name;
  if (std::ranges::find(not_built, name) != not_built.end()) {
    fail_value(value, key,
               concat(" = \"", name, "\" is not built yet; built: ", join_names(names)));
  }
  const std::string near = nearest_name(name, names);
  fail_value(value, key,
             concat(" = \"", name, "\": must be one of ", join_names(names),
                    near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

std::string join_names(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace ulmus::train
