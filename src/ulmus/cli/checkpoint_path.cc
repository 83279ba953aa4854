#include "ulmus/cli/checkpoint_path.h"

#include "ulmus/base/error.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/cli/output.h"

namespace ulmus::cli {

std::filesystem::path find_checkpoint(const std::filesystem::path& given) {
  std::error_code error;
  if (!std::filesystem::is_directory(given, error)) {
    fail_input(given.string(), ": there is no such folder");
  }
  if (std::filesystem::exists(given / checkpoint::kManifestName, error)) return given;
  for (const std::filesystem::path& folder : {given / "checkpoints", given}) {
    if (const auto entry = checkpoint::newest(folder)) {
      print_note(concat("checkpoint ", entry->path.string()));
      return entry->path;
    }
  }
  fail_input(given.string(), ": is no checkpoint (it has no ", checkpoint::kManifestName,
             ") and holds none");
}

}  // namespace ulmus::cli
