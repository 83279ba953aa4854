#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/data/bpe_merges.h"
#include "ulmus/data/word_map.h"

namespace ulmus::data {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// What an encoder does with the text of a special token (`<|endoftext|>`) inside the text.
/// Added tokens that are not special are always recognised, as Hugging Face tokenizers does.
enum class SpecialText {
  kPlain,      ///< ordinary characters: nobody can forge a document's end in training text
  kRecognise,  ///< becomes the special token's id: for prompts
};

/// A token beside the merges, matched as a whole in the text.
struct AddedToken {
  std::int32_t id;
  std::string content;  ///< UTF-8 text
  bool special;
  bool normalized;  ///< matched in a second pass, after the tokens that have it false
};

/// A byte-level BPE vocabulary with the GPT-2 pre-tokenisation (pretokenizer.h). Immutable; all
/// members may be called from several threads.
///
/// Reads and writes the part of Hugging Face's `tokenizer.json` that means exactly this: model BPE
/// over the byte alphabet, pre-tokenizer ByteLevel with its regular expression and without added
/// prefix space, decoder ByteLevel, post-processor ByteLevel or none, no normalizer, added tokens
/// without stripping. Anything else is refused by name (InputError), never ignored. Ids are those
/// of Hugging Face tokenizers.
class Tokenizer {
 public:
  /// A vocabulary made of `tokens` (bytes of each id), rules and added tokens.
  /// InputError naming `name` unless every single byte is a token, every rule joins the bytes of
  /// its sides, ids are 0..n-1 and added tokens are distinct and not empty.
  Tokenizer(std::vector<std::string> tokens, std::vector<Merge> merges,
            std::vector<AddedToken> added, std::string_view name);

  /// InputError naming the file and the place.
  static Tokenizer load(const std::filesystem::path& path);
  /// The same from the text of a tokenizer.json; `name` is for messages.
  static Tokenizer parse(std::string_view json, std::string_view name);
  /// Written atomically; Hugging Face tokenizers loads it.
  void save(const std::filesystem::path& path) const;
  /// What save writes.
  std::string to_json() const;

  /// Ids of a text; any bytes. Short texts: a corpus wants an Encoder.
  std::vector<std::int32_t> encode(std::string_view text,
                                   SpecialText special = SpecialText::kPlain) const;
  /// Appends to `ids`.
  void encode(std::string_view text, std::vector<std::int32_t>& ids,
              SpecialText special = SpecialText::kPlain) const;
  /// The bytes of the tokens one after the other, those of special tokens included; decode(encode
  /// (text)) == text for any bytes. InputError for an id outside the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;

  int vocab_size() const { return static_cast<int>(tokens_.size()); }
  /// Id of `<|endoftext|>`, -1 when the vocabulary has none.
  std::int32_t end_of_text_id() const { return end_of_text_id_; }
  /// InputError for an id outside the vocabulary.
  std::string_view token_bytes(std::int32_t id) const;
  const std::vector<AddedToken>& added_tokens() const { return added_; }
  const BpeMerges& merges() const { return merges_; }
  std::int32_t byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }

  /// XXH3-64 of to_json(): equal for equal vocabularies, however their files are laid out.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  void check(std::string_view name) const;

  std::vector<std::string> tokens_;
  BpeMerges merges_;
  std::vector<AddedToken> added_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::int32_t end_of_text_id_ = -1;
  std::uint64_t fingerprint_ = 0;
};

/// Encodes much text: remembers the ids of words it has seen (at most about 32 MiB of them, then
/// it starts afresh). One for each thread; the ids do not depend on what was encoded before.
class Encoder {
 public:
  /// `tokenizer` must outlive the encoder.
  explicit Encoder(const Tokenizer& tokenizer, SpecialText special = SpecialText::kPlain);

  /// Appends the ids of `text` to `ids`.
  void encode(std::string_view text, std::vector<std::int32_t>& ids);

 private:
  struct Range {
    std::int64_t begin;
    std::int32_t size;
  };
  void encode_words(std::string_view text, std::vector<std::int32_t>& ids);
  void encode_pass(std::string_view text, std::size_t pass, std::vector<std::int32_t>& ids);
  void merge_word(std::string_view word);

  const Tokenizer& tokenizer_;
  SpecialText special_;
  std::array<std::vector<const AddedToken*>, 2> passes_;  // added tokens, longest first
  WordMap words_;
  std::vector<Range> ranges_;  // of each word of words_, into word_ids_
  std::vector<std::int32_t> word_ids_;
  std::vector<std::int32_t> symbols_;
};

}  // namespace ulmus::data
