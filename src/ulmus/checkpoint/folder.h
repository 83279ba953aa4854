#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ulmus::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kInfoName = "info.json";

/// A checkpoint of a run's folder of checkpoints.
struct Entry {
  std::int64_t step;
  std::filesystem::path path;
};

/// "step-00000100"; more digits when they are needed.
std::string folder_name(std::int64_t step);
/// The step of a checkpoint's name; nothing for any other name, "step-000000100" included.
std::optional<std::int64_t> step_of(std::string_view name);

/// Whether a checkpoint of this step may lie in a folder of this name: any that does not begin with
/// "step-", or that of the step.
bool may_be_named(std::string_view name, std::int64_t step);

/// All checkpoints of a folder by rising step. They are complete, since a checkpoint gets its name
/// only when all of it is on the disk; whether they are still good, verify() says. Anything else
/// in the folder is left out. No folder, no checkpoints.
std::vector<Entry> list(const std::filesystem::path& checkpoints_dir);

/// The last of them.
std::optional<Entry> newest(const std::filesystem::path& checkpoints_dir);

/// What a removal did. That something stays is no error: it takes room, nothing else.
struct Removal {
  std::vector<std::filesystem::path> removed;
  std::vector<std::string> kept;  ///< a line for each that should have gone, with the reason
};

/// Removes checkpoints, the oldest first, until `keep` >= 1 are left; never the newest. A crash
/// leaves no half of one under its name.
Removal prune(const std::filesystem::path& checkpoints_dir, std::int64_t keep);

/// Removes step-*.part, which a save that did not end leaves behind.
Removal remove_leftovers(const std::filesystem::path& checkpoints_dir);

}  // namespace ulmus::checkpoint
