#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/data/tokenizer.h"

/// The manifest of a folder of token files. Format: docs/formats/token-file.md.
namespace ulmus::data {

/// How an id is stored, little-endian.
enum class TokenType : std::uint8_t { kUint16, kUint32 };
std::string_view token_type_name(TokenType type);
int token_type_bytes(TokenType type);
/// The smaller type that holds the ids 0..vocab_size-1.
TokenType token_type_for(int vocab_size);

/// Which tokenizer made the files of a folder.
struct TokenizerFacts {
  std::uint64_t fingerprint = 0;  ///< Tokenizer::fingerprint
  int vocab_size = 0;
  std::int32_t end_of_text_id = -1;
  bool operator==(const TokenizerFacts&) const = default;
};
TokenizerFacts facts_of(const Tokenizer& tokenizer);

/// What the manifest says about one token file.
struct TokenFileEntry {
  std::string name;   ///< of the token file, in the manifest's folder
  std::string index;  ///< of the file with the document boundaries
  TokenType type = TokenType::kUint16;
  std::int64_t num_tokens = 0;
  std::int64_t num_documents = 0;
  std::int64_t text_bytes = 0;  ///< UTF-8 bytes of the source text; end-of-text tokens have none
  std::int64_t num_bytes = 0;
  std::uint64_t hash = 0;  ///< XXH3-64 of the file
  std::int64_t index_bytes = 0;
  std::uint64_t index_hash = 0;
};

struct Manifest {
  static constexpr std::string_view kFileName = "manifest.json";

  TokenizerFacts tokenizer;
  std::vector<TokenFileEntry> files;  ///< sorted by name

  /// InputError naming `name` and the place for anything that is not a manifest of this format,
  /// for names that leave the folder and for numbers that contradict each other.
  static Manifest parse(std::string_view json, std::string_view name);
  /// InputError when the folder has none.
  static Manifest load(const std::filesystem::path& folder);
  static std::optional<Manifest> load_if_there(const std::filesystem::path& folder);

  std::string to_json() const;
  /// The entry of a token file, or nullptr.
  const TokenFileEntry* find(std::string_view name) const;
  /// Adds an entry or replaces the one of the same name.
  void put(const TokenFileEntry& entry);
};

std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace ulmus::data
