#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace ulmus::cli {

/// The files of a folder, by name.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder);

/// Asks the system to forget the cached pages of files that are on the disk. Returns the share of
/// their pages that are still in memory, 0 ... 1.
double evict(std::span<const std::filesystem::path> files);

}  // namespace ulmus::cli
