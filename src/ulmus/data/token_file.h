#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ulmus/base/file.h"
#include "ulmus/base/thread_pool.h"
#include "ulmus/data/manifest.h"

namespace ulmus::data {

inline constexpr std::string_view kTokenFileExtension = ".tokens";
inline constexpr std::string_view kIndexExtension = ".index";

/// Where the document boundaries of a token file come from.
enum class Boundaries {
  kIndex,         ///< the index beside the file
  kEndOfTextIds,  ///< no index; every end-of-text token ends a document
  kWholeFile,     ///< no index, no end-of-text token known: one document
};

struct TokenFileOptions {
  /// For a raw file without manifest; with one it must agree.
  std::optional<TokenType> type;
  /// For a file without index (and used for nothing when there is one); -1 = none.
  std::int32_t end_of_text_id = -1;
};

/// A flat little-endian array of token ids, mapped for reading, and its documents. An end-of-text
/// token belongs to the document that it ends. Format: docs/formats/token-file.md. Also reads the
/// headerless `.npy` memmaps of the Olmo ecosystem, whose dtype must be given.
class TokenFile {
 public:
  /// InputError naming the file when it is missing, empty, of a size that is no multiple of the
  /// type, of another size than its manifest says, or when the index is missing (while a manifest
  /// names it), damaged or of another number of tokens, or when the type is unknown.
  static TokenFile open(const std::filesystem::path& path, const TokenFileOptions& options = {});

  const std::filesystem::path& path() const { return file_.path(); }
  TokenType type() const { return type_; }
  std::int64_t num_tokens() const { return num_tokens_; }

  /// Ids of tokens [begin, begin + out.size()). Call verify_ids first: an id of 2^31 or more would
  /// come out negative.
  void read(std::int64_t begin, std::span<std::int32_t> out) const;

  std::int64_t num_documents() const { return num_documents_; }
  std::int64_t document_begin(std::int64_t document) const {
    return document == 0 ? 0 : document_end(document - 1);
  }
  std::int64_t document_end(std::int64_t document) const;
  Boundaries boundaries() const { return boundaries_; }

  /// What the manifest says; nothing for a file without one.
  const std::optional<TokenFileEntry>& entry() const { return entry_; }
  const std::optional<TokenizerFacts>& tokenizer() const { return tokenizer_; }
  /// UTF-8 bytes of the source text, where a manifest tells.
  std::optional<std::int64_t> text_bytes() const;

  /// XXH3-64 of the file: the manifest's word, or computed where there is no manifest.
  std::uint64_t hash() const;

  /// Reads every id of tokens [begin, end), on all threads; InputError naming the first position
  /// whose id is not below `vocab_size`.
  void verify_ids(int vocab_size, std::int64_t begin, std::int64_t end, ThreadPool& pool) const;
  /// Reads both files; InputError when a hash is not the manifest's, or when there is no manifest.
  void verify_hashes() const;

 private:
  explicit TokenFile(MappedFile file) : file_(std::move(file)) {}
  void read_manifest(const TokenFileOptions& options);
  void check_size();
  void read_index(const TokenFileOptions& options);
  void parse_index(const MappedFile& index);
  void find_documents(std::int32_t end_of_text_id);
  std::uint32_t raw(std::int64_t position) const;

  MappedFile file_;
  std::optional<MappedFile> index_;
  std::vector<std::int64_t> found_ends_;  // without an index
  TokenType type_ = TokenType::kUint16;
  Boundaries boundaries_ = Boundaries::kWholeFile;
  std::int64_t num_tokens_ = 0;
  std::int64_t num_documents_ = 0;
  std::optional<TokenFileEntry> entry_;
  std::optional<TokenizerFacts> tokenizer_;
};

enum class Overwrite { kNo, kYes };

/// Writes one token file with its index and enters it in the folder's manifest. Under its names it
/// appears only by finish(), whole and flushed; before that, and after a crash, there are at most
/// two `.part` files. Holds the folder's lock for its life: one writer for each folder.
class TokenFileWriter {
 public:
  /// Makes the folder if need be. InputError when `stem` is no plain name, when the file exists
  /// (unless kYes), when the folder's files are of another tokenizer, or when another process
  /// writes there.
  TokenFileWriter(const std::filesystem::path& folder, const std::string& stem,
                  const TokenizerFacts& tokenizer, Overwrite overwrite = Overwrite::kNo);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// Appends ids to the current document.
  void append(std::span<const std::int32_t> ids);
  /// Ends the current document, which must have a token; `text_bytes` of source text made it.
  void end_document(std::int64_t text_bytes);
  /// InputError when there is no document at all.
  TokenFileEntry finish();

 private:
  struct Output;
  void flush();

  std::filesystem::path folder_;
  TokenizerFacts tokenizer_;
  TokenFileEntry entry_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Output> output_;
  std::vector<std::byte> buffer_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace ulmus::data
