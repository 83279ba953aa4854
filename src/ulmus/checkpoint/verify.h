#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ulmus::checkpoint {

struct VerifyReport {
  std::int64_t files_checked = 0;
  std::int64_t tensors_checked = 0;  ///< hash formed and compared
  std::int64_t bytes = 0;
  std::vector<std::string> differences;  ///< each names the file, and the tensor where there is one
  bool is_good() const { return differences.empty(); }
};

/// Looks at every byte of a checkpoint, without a model: manifest and info against their own
/// hashes, each file's header and length against the manifest, each tensor's hash and that its
/// values are finite, files that do not belong there, and the folder's name against the step.
/// What is wrong is reported, not thrown; InputError only when there is no such folder.
VerifyReport verify(const std::filesystem::path& dir);

}  // namespace ulmus::checkpoint
