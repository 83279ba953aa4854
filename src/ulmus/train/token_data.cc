#include "ulmus/train/token_data.h"

#include <xxhash.h>

#include <algorithm>

#include "ulmus/base/error.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/comm/agreement.h"

namespace ulmus::train {
namespace {

data::TokenFiles open_all(const std::vector<std::filesystem::path>& paths) {
  data::TokenFiles files;
  const auto open = [&](const std::filesystem::path& path) {
    files.push_back(std::make_shared<data::TokenFile>(data::TokenFile::open(path)));
  };
  for (const std::filesystem::path& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      open(path);
      continue;
    }
    for (const data::TokenFileEntry& entry : data::Manifest::load(path).files) {
      open(path / entry.name);
    }
  }
  return files;
}

}  // namespace

data::Tokenizer load_tokenizer(const std::filesystem::path& path, const model::ModelConfig& model) {
  data::Tokenizer tokenizer = data::Tokenizer::load(path);
  if (tokenizer.vocab_size() > model.vocab) {
    fail_input("model.vocab = ", model.vocab, ": must be at least ", tokenizer.vocab_size(),
               ", the tokens of ", path.string());
  }
  return tokenizer;
}

std::optional<std::uint64_t> tokenizer_fingerprint(const Config& config) {
  if (config.data.tokenizer.empty()) return std::nullopt;
  return load_tokenizer(config.data.tokenizer, config.model).fingerprint();
}

DataIdentity identify_data(const Config& config) {
  DataIdentity identity = {.tokenizer = tokenizer_fingerprint(config), .train = std::nullopt};
  if (config.data.train.empty()) return identity;
  std::string hashes;
  for (const auto& file : open_token_files(config, "data.train", config.data.train)) {
    hashes += hash_text(file->hash()) + "\n";
  }
  identity.train = XXH3_64bits(hashes.data(), hashes.size());
  return identity;
}

data::TokenFiles open_token_files(const Config& config, std::string_view key,
                                  const std::vector<std::filesystem::path>& paths) {
  data::TokenFiles files = open_all(paths);
  if (files.empty()) fail_input(key, " names no token file");
  const std::optional<std::uint64_t> expected = tokenizer_fingerprint(config);
  for (const auto& file : files) {
    const std::optional<data::TokenizerFacts>& made_by = file->tokenizer();
    if (!expected || !made_by || made_by->fingerprint == *expected) continue;
    fail_input(key, ": ", file->path().string(), " was made with another tokenizer (xxh3_64 ",
               hash_text(made_by->fingerprint),
               ") than data.tokenizer = ", config.data.tokenizer.string(), " (",
               hash_text(*expected), ")");
  }
  return files;
}

void verify_ids(const data::Loader& loader, const Config& config, ThreadPool& pool,
                comm::Communicator& ranks) {
  constexpr std::int64_t kPieceTokens = std::int64_t{1} << 28U;  // seconds from a slow disk
  const std::int64_t all = loader.num_tokens();
  const std::int64_t share = (all + ranks.size() - 1) / ranks.size();
  const std::int64_t piece = std::min(kPieceTokens, share);
  for (std::int64_t first = 0; first < all; first += piece * ranks.size()) {
    comm::agree(ranks, [&] {
      const std::int64_t begin = std::min(all, first + piece * ranks.rank());
      loader.verify_ids(static_cast<int>(config.model.vocab), begin, std::min(all, begin + piece),
                        pool);
    });
  }
}

}  // namespace ulmus::train
