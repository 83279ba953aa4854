#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "ulmus/data/instances.h"
#include "ulmus/data/tokenizer.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// Tokenizer::fingerprint of data.tokenizer; nothing where that is not set.
std::optional<std::uint64_t> tokenizer_fingerprint(const DataConfig& config);

/// Token files of data.train or data.eval (`key`). A folder stands for the token files that its
/// manifest lists. InputError naming the path, or `key` when it names no file, or the file that
/// another tokenizer made than data.tokenizer (a file without manifest does not tell).
data::TokenFiles open_token_files(const DataConfig& config, std::string_view key,
                                  const std::vector<std::filesystem::path>& paths);

}  // namespace ulmus::train
