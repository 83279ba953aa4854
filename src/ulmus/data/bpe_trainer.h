#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/base/thread_pool.h"
#include "ulmus/data/tokenizer.h"
#include "ulmus/data/word_map.h"

namespace ulmus::data {

/// How often each word (pretokenizer.h) occurs in a corpus. The counts do not depend on the number
/// of threads nor on how the corpus is cut into calls.
class WordCounts {
 public:
  /// Adds the words of some documents, counted on all threads of `pool`.
  void add(std::span<const std::string_view> documents, ThreadPool& pool);

  struct Word {
    std::string_view bytes;
    std::int64_t count;
  };
  /// Sorted by bytes; valid until the next add.
  std::vector<Word> sorted() const;

  std::int64_t num_words() const { return words_.size(); }
  std::int64_t num_text_bytes() const { return num_text_bytes_; }
  /// Occurrences of words above kLongestWordBytes (unbroken runs of one class of characters, such
  /// as base64), which are left out of training and nothing else.
  std::int64_t num_left_out() const { return num_left_out_; }
  static constexpr std::size_t kLongestWordBytes = 4096;

 private:
  void add_one(std::string_view word, std::int64_t count);

  WordMap words_;
  std::vector<std::int64_t> counts_;
  std::int64_t num_text_bytes_ = 0;
  std::int64_t num_left_out_ = 0;
};

struct BpeTrainerOptions {
  int vocab_size =
      4096;  ///< specials + 256 bytes + merges; fewer when the corpus runs out of pairs
  std::int64_t min_count = 2;  ///< a pair that occurs less often is not merged
  std::vector<std::string> special_tokens = {std::string(kEndOfText)};  ///< ids 0, 1, ...
};

/// Byte-level BPE (Sennrich et al. 2016 over the bytes of words). Ids: special tokens, the 256
/// bytes in the order of byte_order(), then one token for each merge. At each step the pair of
/// neighbours with the highest count over the corpus is merged; among equal counts the pair with
/// the lower left id, then the lower right id: the rule of Hugging Face tokenizers, whose
/// vocabularies and merges come out identical. (One deliberate difference: a merge that would
/// spell a special token is passed over, so that no text can make its id.)
///
/// InputError when vocab_size cannot hold specials and bytes, or specials repeat or are empty.
Tokenizer train_bpe(const WordCounts& counts, const BpeTrainerOptions& options);

}  // namespace ulmus::data
