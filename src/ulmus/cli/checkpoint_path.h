#pragma once

#include <filesystem>

namespace ulmus::cli {

/// The checkpoint that --checkpoint means: the folder itself, or the newest checkpoint of a run
/// folder or of a folder of checkpoints (said on standard error). InputError when there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

}  // namespace ulmus::cli
