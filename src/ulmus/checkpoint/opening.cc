#include "ulmus/checkpoint/opening.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ulmus/base/strict_json.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/tensor_reading.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

/// The folder's own name and its parent, however the path was written.
fs::path normal(const fs::path& dir) {
  const fs::path path = fs::absolute(dir).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::string name_of_folder(const fs::path& dir) { return normal(dir).filename().string(); }

[[noreturn]] void fail_without_manifest(const fs::path& dir) {
  const std::string what = concat(dir.string(), " has no ", kManifestName);
  for (const fs::path& folder : {dir / "checkpoints", dir}) {
    if (const std::optional<Entry> inside = newest(folder)) {
      fail_input(what, ": not a checkpoint; did you mean ", inside->path.string(), "?");
    }
  }
  if (step_of(name_of_folder(dir))) {
    throw DamageError(concat("damaged checkpoint ", dir.string(), ": ", what));
  }
  fail_input(what, ": not a checkpoint, or a damaged one");
}

bool looks_whole(const fs::path& dir) {
  try {
    const Manifest manifest = open_manifest(dir);
    check_name(dir, manifest);
    refuse_stray_tensors(dir, manifest);
    for (const auto& [name, tensors] : tensors_by_file(manifest))
      open_checked(dir / name, tensors);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void require_folder(const fs::path& dir) {
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  if (fs::is_directory(status)) return;
  if (fs::status_known(status)) fail_input(dir.string(), ": there is no such folder");
  fail_input("cannot look at ", dir.string(), ": ", error.message());
}

Manifest open_manifest(const fs::path& dir) {
  require_folder(dir);
  const fs::path path = dir / kManifestName;
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) fail_without_manifest(dir);
  return as_damage(dir, [&] { return read_manifest(path); });
}

void check_name(const fs::path& dir, const Manifest& manifest) {
  if (may_be_named(name_of_folder(dir), manifest.step)) return;
  fail_input(dir.string(), ": the manifest is of step ", manifest.step, ", whose folder is named ",
             folder_name(manifest.step));
}

std::vector<std::string> stray_files(const fs::path& dir, const Manifest& manifest) {
  std::set<std::string> known = {kManifestName, kInfoName};
  for (const ManifestTensor& tensor : manifest.tensors)
    known.insert(tensor.file);
  std::vector<std::string> strays;
  std::error_code error;
  for (fs::directory_iterator it(dir, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!known.contains(name)) strays.push_back(std::move(name));
  }
  if (error) throw AccessError(concat("cannot read folder ", dir.string(), ": ", error.message()));
  std::sort(strays.begin(), strays.end());
  return strays;
}

void refuse_stray_tensors(const fs::path& dir, const Manifest& manifest) {
  for (const std::string& name : stray_files(dir, manifest)) {
    if (!name.ends_with(".safetensors")) continue;
    fail_input(shown_text((dir / name).string()), ": the manifest knows no such file");
  }
}

std::string way_out(const fs::path& dir) {
  const fs::path path = normal(dir);
  std::vector<Entry> entries;
  try {
    entries = list(path.parent_path());
  } catch (const InputError&) {
    return "";  // a folder that cannot be listed offers nothing
  }
  if (entries.empty()) return "";
  std::reverse(entries.begin(), entries.end());
  for (const Entry& entry : entries) {
    if (entry.path.filename() == path.filename() || !looks_whole(entry.path)) continue;
    return concat("; the newest checkpoint beside it that looks whole is ", entry.path.string(),
                  " (step ", entry.step, "; ulmus checkpoint verify reads all of it)");
  }
  return "; no checkpoint beside it looks whole";
}

}  // namespace ulmus::checkpoint
