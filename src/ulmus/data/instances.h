#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ulmus/data/token_file.h"

namespace ulmus::data {

using TokenFiles = std::vector<std::shared_ptr<const TokenFile>>;

/// How token files become instances of S positions; t = tokens of a file, n = their number.
enum class Packing {
  /// Instance i of a file: inputs t[iS .. iS+S), targets t[iS+1 .. iS+S]. Documents follow each
  /// other and attend across their boundaries.
  kChunk,
  /// Whole documents, several in one instance, none attending to another. A document of more than
  /// S + 1 tokens is cut into pieces that overlap by one token. Best fit, longest first.
  kDocuments,
};
/// "chunk" or "documents"; InputError for another name, naming `key`.
Packing parse_packing(std::string_view name, std::string_view key);
std::string_view packing_name(Packing packing);

/// What becomes of the end of a file that does not fill an instance; with kChunk only.
enum class Leftover {
  kDrop,  ///< for training
  kPad,   ///< for evaluation: every token but the first of a file is predicted exactly once
};

/// Memory for one instance, S elements each, all overwritten.
struct InstanceRows {
  std::span<std::int32_t> tokens;          ///< inputs; 0 where not valid
  std::span<std::int32_t> targets;         ///< the next token; -1 where nothing bears loss
  std::span<std::int32_t> document_begin;  ///< first position of this token's document in the row;
                                           ///< 0 with kChunk; own position where not valid
  std::span<std::uint8_t> valid;           ///< 0 for padding, else 1
};

/// The instances of a list of token files. A pure function of the files, S and the options; no
/// cache on disk. With kDocuments 16 bytes for each piece are kept in memory.
///
/// With kDocuments every token but the first of each document is predicted exactly once, and a
/// document's last token (its end-of-text) is a target only, never an input.
class Instances {
 public:
  /// `sequence_length` >= 1. InputError when the files give no instance at all.
  Instances(TokenFiles files, std::int64_t sequence_length, Packing packing, Leftover leftover);

  std::int64_t size() const { return size_; }
  std::int64_t sequence_length() const { return sequence_length_; }
  const TokenFiles& files() const { return files_; }
  /// Targets over all instances.
  std::int64_t num_targets() const { return num_targets_; }
  /// Targets that kDrop leaves out.
  std::int64_t num_dropped() const { return num_dropped_; }

  /// Writes instance `index` (0 <= index < size()); allocates nothing.
  void fill(std::int64_t index, const InstanceRows& rows) const;

 private:
  /// Positions [begin, begin + length) of a file as inputs.
  struct Piece {
    std::int64_t begin;
    std::int32_t length;
    std::int32_t file;
  };
  void count_chunks(Leftover leftover);
  std::vector<Piece> cut_documents() const;
  void pack_documents();
  void fill_chunk(std::int64_t index, const InstanceRows& rows) const;
  void fill_piece(const Piece& piece, std::int64_t at, const InstanceRows& rows) const;
  void pad(std::int64_t from, const InstanceRows& rows) const;

  TokenFiles files_;
  std::int64_t sequence_length_;
  Packing packing_;
  std::int64_t size_ = 0;
  std::int64_t num_targets_ = 0;
  std::int64_t num_dropped_ = 0;
  std::vector<std::int64_t> file_end_;     // kChunk: instances up to and with each file
  std::vector<Piece> pieces_;              // kDocuments: in the order of instances
  std::vector<std::int64_t> first_piece_;  // kDocuments: of each instance, and the end
};

}  // namespace ulmus::data
