#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ulmus::train {

struct ConfigMember;

/// One value of a configuration: what TOML can say, and where it was said.
struct ConfigValue {
  enum class Kind : std::uint8_t { kBoolean, kInteger, kFloat, kString, kDate, kArray, kTable };

  Kind kind = Kind::kString;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0.0;
  std::string text;                   ///< of a string
  std::vector<ConfigValue> items;     ///< of an array
  std::vector<ConfigMember> members;  ///< of a table
  std::string where;                  ///< "file.toml:12" or "--set moe.top_k=4"
  /// What stood behind the "=" of --set: also the value of a key that takes a string.
  std::string raw;
};

/// One name of a table.
struct ConfigMember {
  std::string name;
  ConfigValue value;
};

/// The value as TOML text: what a message shows and what to_toml writes.
std::string to_toml_text(const ConfigValue& value);
std::string to_toml_text(bool value);
std::string to_toml_text(std::int64_t value);
/// Shortest text that reads back to the same double, never the text of an integer.
std::string to_toml_text(double value);
/// In quotes.
std::string to_toml_text(std::string_view value);

/// Values by dotted name ("model.rope.theta"); tables are opened, arrays are values. A name that
/// has a dot or quotes of its own stays quoted, so that it equals no name of ours.
using FlatConfig = std::map<std::string, ConfigValue>;

/// Reads TOML. `source` names the text in messages. InputError with file and line for what is not
/// TOML (double keys included).
FlatConfig parse_toml(std::string_view text, std::string_view source);

/// Adds what "a.b=value" says, over what is there; the later of two wins. The value is TOML, or a
/// bare word that stands for a string. InputError naming the argument when it has another form.
void apply_override(FlatConfig& flat, const std::string& argument);

/// The readers of one value. Each names key, place, what was found and what is allowed
/// (InputError).
struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
struct NumberRange {
  double min = -std::numeric_limits<double>::max();
  double max = std::numeric_limits<double>::max();
  bool min_open = false;  ///< min itself is not allowed
  bool max_open = false;
};
/// ">= 1", "1 ... 64", "" when everything is allowed.
std::string range_text(const IntegerRange& range);
std::string range_text(const NumberRange& range);

std::int64_t read_integer(const ConfigValue& value, std::string_view key,
                          const IntegerRange& range);
double read_number(const ConfigValue& value, std::string_view key, const NumberRange& range);
bool read_boolean(const ConfigValue& value, std::string_view key);
std::string read_string(const ConfigValue& value, std::string_view key);
std::span<const ConfigValue> read_array(const ConfigValue& value, std::string_view key);
/// An array of strings; one string stands for an array of one.
std::vector<std::string> read_strings(const ConfigValue& value, std::string_view key);
/// One of `names`; one of `not_built` is refused as such.
std::string read_choice(const ConfigValue& value, std::string_view key,
                        std::span<const std::string> names, std::span<const std::string> not_built);

/// "file:12: key: " and the parts. Always throws InputError.
[[noreturn]] void fail_value(const ConfigValue& value, std::string_view key,
                             const std::string& message);
/// "expected an integer, found string "four"".
[[noreturn]] void fail_type(const ConfigValue& value, std::string_view key,
                            std::string_view expected);

/// "a, b, c".
std::string join_names(std::span<const std::string> names);

}  // namespace ulmus::train
