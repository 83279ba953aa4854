#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "ulmus/base/thread_pool.h"
#include "ulmus/comm/communicator.h"
#include "ulmus/data/instances.h"
#include "ulmus/data/loader.h"
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

/// Looks at every token id, each rank at its share, a piece at a time, so that no rank waits long
/// for another however many there are. Collective. InputError on every rank for an id that is not
/// below model.vocab.
void verify_ids(const data::Loader& loader, const Config& config, ThreadPool& pool,
                comm::Communicator& ranks);

}  // namespace ulmus::train
