#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ulmus/train/config.h"
#include "ulmus/train/config_value.h"

namespace ulmus::train {

/// Whether a run may be continued with another value of a key.
///   kMay     it may change
///   kFixed   another value is refused
///   kScoped  it may change unless moe.balance_scope = "micro_batch", whose loss it would change
enum class OnResume : std::uint8_t { kMay, kFixed, kScoped };

/// One key of the configuration: the parser, to_toml, the comparison on resume and the reference
/// page (docs/configuration.md) all go through this table.
struct ConfigKey {
  std::string name;  ///< dotted
  std::string type;  ///< as the reference page says it
  std::string meaning;
  std::string default_note;  ///< instead of the default that `write` shows
  std::string built;         ///< "yes", or the values that are built
  OnResume on_resume = OnResume::kFixed;
  bool required = false;
  /// Sets the key. InputError for what is wrong with the value itself.
  std::function<void(Config&, const ConfigValue&)> read;
  /// The value as TOML; "" when it is not set. No function: the key has one value, not kept.
  std::function<std::string(const Config&)> write;
};

/// So large that products of steps and tokens still fit 64 bits.
inline constexpr std::int64_t kMaxSteps = std::int64_t{1} << 32;
inline constexpr std::int64_t kMaxBatchTokens = std::int64_t{1} << 30;
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 60;

/// All keys, table by table.
const std::vector<ConfigKey>& config_keys();

/// InputError naming the first key that is unlike its default and has no effect beside the others.
void check_effects(const Config& config);

/// What a key says about itself.
struct KeyText {
  std::string meaning;
  OnResume on_resume = OnResume::kFixed;
  std::string default_note = {};
  bool required = false;
  bool zero_is_unset = false;  ///< an integer's 0 stands for "not given" and is not written
};

/// A name of a choice and what it stands for.
template <class Value>
struct Choice {
  std::string name;
  Value value;
  /// The same choice for an optional member.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator Choice<std::optional<Value>>() const { return {name, value}; }
};

/// Ranges that many keys share.
inline constexpr IntegerRange kPositive{.min = 1};
inline constexpr IntegerRange kNotNegative{.min = 0};
inline constexpr NumberRange kAbove{.min = 0.0, .min_open = true};
inline constexpr NumberRange kAtLeast{.min = 0.0};

/// Collects keys. `get` is a generic lambda from a Config (const or not) to the key's member:
///   [](auto& c) -> auto& { return c.run.log_every; }
class KeyTable {
 public:
  template <class Get>
  void add_integer(std::string name, Get get, IntegerRange range, const KeyText& text) {
    using Member = std::remove_cvref_t<decltype(get(std::declval<Config&>()))>;
    ConfigKey key = make(std::move(name), join("integer", range_text(range)), text);
    key.read = [get, range, name = key.name](Config& config, const ConfigValue& value) {
      const std::int64_t integer = read_integer(value, name, range);
      if (!std::in_range<Member>(integer)) {
        read_integer(value, name, {range.min, limit_of<Member>()});
      }
      get(config) = static_cast<Member>(integer);
    };
    key.write = [get, zero_is_unset = text.zero_is_unset](const Config& config) {
      const auto integer = static_cast<std::int64_t>(get(config));
      return zero_is_unset && integer == 0 ? std::string() : to_toml_text(integer);
    };
    keys_.push_back(std::move(key));
  }

  /// A std::optional member.
  template <class Get>
  void add_optional_integer(std::string name, Get get, IntegerRange range, KeyText text) {
    ConfigKey key = make(std::move(name), join("integer", range_text(range)), std::move(text));
    key.read = [get, range, name = key.name](Config& config, const ConfigValue& value) {
      get(config) = read_integer(value, name, range);
    };
    key.write = [get](const Config& config) {
      return get(config) ? to_toml_text(*get(config)) : std::string();
    };
    keys_.push_back(std::move(key));
  }

  template <class Get>
  void add_number(std::string name, Get get, NumberRange range, KeyText text) {
    ConfigKey key = make(std::move(name), join("number", range_text(range)), std::move(text));
    key.read = [get, range, name = key.name](Config& config, const ConfigValue& value) {
      get(config) = read_number(value, name, range);
    };
    key.write = [get](const Config& config) { return to_toml_text(double{get(config)}); };
    keys_.push_back(std::move(key));
  }

  template <class Get>
  void add_boolean(std::string name, Get get, KeyText text) {
    ConfigKey key = make(std::move(name), "true or false", std::move(text));
    key.read = [get, name = key.name](Config& config, const ConfigValue& value) {
      get(config) = read_boolean(value, name);
    };
    key.write = [get](const Config& config) { return to_toml_text(bool{get(config)}); };
    keys_.push_back(std::move(key));
  }

  /// A string or a path. An empty one counts as not set.
  template <class Get>
  void add_string(std::string name, Get get, KeyText text) {
    using Member = std::remove_cvref_t<decltype(get(std::declval<Config&>()))>;
    ConfigKey key = make(std::move(name), "string", std::move(text));
    key.read = [get, name = key.name](Config& config, const ConfigValue& value) {
      get(config) = Member(read_string(value, name));
    };
    key.write = [get](const Config& config) {
      const std::string_view value = text_of(get(config));
      return value.empty() ? std::string() : to_toml_text(value);
    };
    keys_.push_back(std::move(key));
  }

  template <class Get>
  void add_paths(std::string name, Get get, KeyText text) {
    ConfigKey key = make(std::move(name), "array of paths", std::move(text));
    key.read = [get, name = key.name](Config& config, const ConfigValue& value) {
      get(config).clear();
      for (const std::string& path : read_strings(value, name)) {
        get(config).emplace_back(path);
      }
    };
    key.write = [get](const Config& config) {
      std::string out;
      for (const auto& path : get(config)) {
        out += (out.empty() ? "" : ", ") + to_toml_text(std::string_view(path.native()));
      }
      return out.empty() ? std::string() : "[" + out + "]";
    };
    keys_.push_back(std::move(key));
  }

  /// One of several names; those of `not_built` are refused as such.
  template <class Value, class Get>
  void add_choice(std::string name, Get get, const std::vector<Choice<Value>>& choices,
                  const std::vector<std::string>& not_built, KeyText text) {
    std::vector<std::string> names;
    names.reserve(choices.size());
    for (const auto& choice : choices) {
      names.push_back(choice.name);
    }
    ConfigKey key = make(std::move(name), quoted_names(names, not_built), std::move(text));
    if (!not_built.empty()) key.built = quoted_names(names);
    key.read = [=, name = key.name](Config& config, const ConfigValue& value) {
      const std::string chosen = read_choice(value, name, names, not_built);
      for (const auto& choice : choices) {
        if (choice.name == chosen) get(config) = choice.value;
      }
    };
    key.write = [=](const Config& config) {
      for (const auto& choice : choices) {
        if (choice.value == get(config)) return to_toml_text(std::string_view(choice.name));
      }
      return std::string();
    };
    keys_.push_back(std::move(key));
  }

  /// The same with a std::optional member.
  template <class Value, class Get>
  void add_optional_choice(std::string name, Get get, const std::vector<Choice<Value>>& choices,
                           const std::vector<std::string>& not_built, KeyText text) {
    add_choice<std::optional<Value>>(
        std::move(name), get,
        std::vector<Choice<std::optional<Value>>>(choices.begin(), choices.end()), not_built,
        std::move(text));
  }

  /// A key with its own reader and writer.
  ConfigKey& add(std::string name, std::string type, KeyText text,
                 std::function<void(Config&, const ConfigValue&)> read,
                 std::function<std::string(const Config&)> write);

  /// Keys of features that are not built: only the value that says what one process does anyway is
  /// accepted, others are refused by name. `neutral` is that value as TOML.
  void add_fixed_choice(std::string name, const std::vector<std::string>& not_built,
                        const std::string& neutral, KeyText text);
  void add_fixed_integer(std::string name, IntegerRange range, std::int64_t neutral, KeyText text);
  void add_fixed_false(std::string name, KeyText text);
  /// Of `type`; `neutral` "" means that the key is refused whatever it says.
  void add_fixed(std::string name, std::string type, const std::string& neutral, KeyText text);

  std::vector<ConfigKey> take() { return std::move(keys_); }

  /// "a", "b" with their quotes; those of `more` behind.
  static std::string quoted_names(const std::vector<std::string>& names,
                                  const std::vector<std::string>& more = {});

 private:
  /// Largest value of an integer member that a configuration's integers can say.
  template <class Member>
  static constexpr std::int64_t limit_of() {
    constexpr Member kMax = std::numeric_limits<Member>::max();
    return std::in_range<std::int64_t>(kMax) ? static_cast<std::int64_t>(kMax)
                                             : std::numeric_limits<std::int64_t>::max();
  }
  static std::string_view text_of(const std::string& value) { return value; }
  static std::string_view text_of(const std::filesystem::path& value) { return value.native(); }
  static ConfigKey make(std::string name, std::string type, KeyText text);
  static std::string join(const std::string& type, const std::string& range);

  std::vector<ConfigKey> keys_;
};

/// The tables, one file each or a few in one.
void add_run_keys(KeyTable& table);
void add_model_keys(KeyTable& table);
void add_moe_keys(KeyTable& table);
void add_data_keys(KeyTable& table);
void add_optim_keys(KeyTable& table);
void add_parallel_keys(KeyTable& table);
void add_machine_keys(KeyTable& table);

}  // namespace ulmus::train
