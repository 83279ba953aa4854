#include "ulmus/train/token_data.h"

#include "ulmus/base/error.h"

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

std::optional<std::uint64_t> tokenizer_fingerprint(const DataConfig& config) {
  if (config.tokenizer.empty()) return std::nullopt;
  return data::Tokenizer::load(config.tokenizer).fingerprint();
}

data::TokenFiles open_token_files(const DataConfig& config, std::string_view key,
                                  const std::vector<std::filesystem::path>& paths) {
  data::TokenFiles files = open_all(paths);
  if (files.empty()) fail_input(key, " names no token file");
  const std::optional<std::uint64_t> expected = tokenizer_fingerprint(config);
  for (const auto& file : files) {
    if (!expected || !file->tokenizer() || file->tokenizer()->fingerprint == *expected) continue;
    fail_input(key, ": ", file->path().string(), " was made with another tokenizer (xxh3_64 ",
               data::hash_text(file->tokenizer()->fingerprint),
               ") than data.tokenizer = ", config.tokenizer.string(), " (",
               data::hash_text(*expected), ")");
  }
  return files;
}

}  // namespace ulmus::train
