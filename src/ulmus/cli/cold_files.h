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

/// Reads a file from its beginning to its end, in large pieces. Returns its bytes.
std::int64_t read_through(const std::filesystem::path& file);

/// Copies a file into a folder, and flushes the copy to the disk.
void copy_synced(const std::filesystem::path& file, const std::filesystem::path& folder);

}  // namespace ulmus::cli
