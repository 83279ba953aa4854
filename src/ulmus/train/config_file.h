#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/train/config.h"

namespace ulmus::train {

/// The configuration of a TOML file, every key of it named in docs/configuration.md. `overrides`
/// are what --set was given ("moe.top_k=4"; the last of two wins). Family defaults first, then
/// keys, then what the family derives; validated.
///
/// InputError naming file, line, key, value and what is allowed: no TOML, double key, unknown key
/// (with the nearest name), wrong type, out of range, feature not built, keys that contradict.
Config load_config(const std::filesystem::path& path, std::span<const std::string> overrides);

/// The same from text; `source_name` stands for the file in messages.
Config parse_config(std::string_view text, std::string_view source_name,
                    std::span<const std::string> overrides);

/// The resolved configuration: every key that is kept, defaults included. Parses back to an equal
/// Config.
std::string to_toml(const Config& config);

/// Values of keys, as TOML.
using Settings = std::map<std::string, std::string>;

/// What a checkpoint keeps of the configuration: the keys that make up model and optimizer, and all
/// that a continued run must not change. Those that are not set are left out.
Settings checkpoint_settings(const Config& config);

/// A key whose value differs from that of the run being continued.
struct ResumeDifference {
  std::string key;
  std::string old_value;  ///< as TOML; "not set" where it is not
  std::string new_value;
  bool allowed = false;  ///< may change on resume
};
/// `kept` is checkpoint_settings of the old configuration.
std::vector<ResumeDifference> resume_differences(const Settings& kept, const Config& config);

/// InputError naming every key that may not change on resume, with both values.
void check_resume(const Settings& kept, const Config& config);

/// How the function that a model computes differs from that of a checkpoint's settings: "moe.top_k
/// was 2, is now 3; ...", "" where it does not. Keys that only training reads do not count.
std::string model_differences(const Settings& kept, const Config& config);

/// The reference of all keys as Markdown, one table for each TOML table: the tables of
/// docs/configuration.md, which a test compares with this.
std::string key_reference();

}  // namespace ulmus::train
