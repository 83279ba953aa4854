#include "ulmus/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/base/file.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartSuffix = ".part";
constexpr std::size_t kDigits = 8;

/// Folders directly inside `dir`.
std::vector<fs::path> folders_in(const fs::path& dir) {
  std::vector<fs::path> folders;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  if (error == std::errc::no_such_file_or_directory) return folders;
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) folders.push_back(it->path());
  }
  if (error) fail_input("cannot read folder ", dir.string(), ": ", error.message());
  return folders;
}

/// Removes `path`, which the removal speaks of as `name`.
void remove_folder(const fs::path& path, const fs::path& name, Removal& removal) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    removal.kept.push_back(concat("cannot remove ", path.string(), ": ", error.message()));
  } else {
    removal.removed.push_back(name);
  }
}

}  // namespace

std::string folder_name(std::int64_t step) {
  ULMUS_CHECK(step >= 0, "step ", step);
  const std::string digits = std::to_string(step);
  const std::size_t zeros = digits.size() < kDigits ? kDigits - digits.size() : 0;
  return std::string(kPrefix) + std::string(zeros, '0') + digits;
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const std::string_view digits = name.substr(kPrefix.size());
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (result.ec != std::errc() || step < 0 || folder_name(step) != name) return std::nullopt;
  return step;
}

bool may_be_named(std::string_view name, std::int64_t step) {
  return !name.starts_with(kPrefix) || name == folder_name(step);
}

std::vector<Entry> list(const fs::path& checkpoints_dir) {
  std::vector<Entry> entries;
  for (const fs::path& path : folders_in(checkpoints_dir)) {
    const auto step = step_of(path.filename().string());
    if (step) entries.push_back({*step, path});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

std::optional<Entry> newest(const fs::path& checkpoints_dir) {
  std::vector<Entry> entries = list(checkpoints_dir);
  if (entries.empty()) return std::nullopt;
  return std::move(entries.back());
}

Removal prune(const fs::path& checkpoints_dir, std::int64_t keep) {
  ULMUS_CHECK(keep >= 1, "keep ", keep, " checkpoints, at least one");
  const std::vector<Entry> entries = list(checkpoints_dir);
  Removal removal;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < entries.size(); ++i) {
    // It loses its name first, so that a crash while its files go leaves a leftover, not a
    // damaged checkpoint.
    fs::path part = entries[i].path;
    part += kPartSuffix;
    std::error_code error;
    fs::rename(entries[i].path, part, error);
    if (error) {
      removal.kept.push_back(concat("cannot remove ", entries[i].path.string(), ": renaming it to ",
                                    part.string(), ": ", error.message()));
      continue;
    }
    remove_folder(part, entries[i].path, removal);
  }
  return removal;
}

Removal remove_leftovers(const fs::path& checkpoints_dir) {
  Removal removal;
  for (const fs::path& path : folders_in(checkpoints_dir)) {
    const std::string name = path.filename().string();
    if (!name.ends_with(kPartSuffix)) continue;
    if (!step_of(std::string_view(name).substr(0, name.size() - kPartSuffix.size()))) continue;
    remove_folder(path, path, removal);
  }
  return removal;
}

}  // namespace ulmus::checkpoint
