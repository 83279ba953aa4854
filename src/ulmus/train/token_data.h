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

/// InputError when the file is unusable or has more tokens than model.vocab.
data::Tokenizer load_tokenizer(const std::filesystem::path& path, const model::ModelConfig& model);

/// What a run's tokens are, wherever their files lie.
struct DataIdentity {
  std::optional<std::uint64_t> tokenizer;  ///< its fingerprint; nothing without data.tokenizer
  /// XXH3-64 over the hashes of data.train's files, in order; nothing without them.
  std::optional<std::uint64_t> train;
};
DataIdentity identify_data(const Config& config);
std::optional<std::uint64_t> tokenizer_fingerprint(const Config& config);

/// Token files of data.train or data.eval (`key`). A folder stands for the token files that its
/// manifest lists. InputError naming the path, or `key` when it names no file, or the file that
/// another tokenizer made than data.tokenizer (a file without manifest does not tell).
data::TokenFiles open_token_files(const Config& config, std::string_view key,
                                  const std::vector<std::filesystem::path>& paths);

}  // namespace ulmus::train
