#pragma once

#include <filesystem>
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

/// A key whose value in the file differs from that of the run being continued.
struct ResumeDifference {
  std::string key;
  std::string old_value;  ///< as TOML; "not set" where it is not
  std::string new_value;
  bool allowed = false;  ///< may change on resume
};
std::vector<ResumeDifference> resume_differences(const Config& old_config,
                                                 const Config& new_config);

/// InputError naming every key that may not change on resume, with both values.
void check_resume(const Config& old_config, const Config& new_config);

/// The reference of all keys as Markdown, one table for each TOML table: the tables of
/// docs/configuration.md, which a test compares with this.
std::string key_reference();

}  // namespace ulmus::train
