#include <algorithm>
#include <cstddef>

#include "ulmus/base/check.h"
#include "ulmus/data/pretokenizer.h"
#include "ulmus/data/tokenizer.h"

namespace ulmus::data {

namespace {

constexpr std::int64_t kCacheBytes = std::int64_t{32} << 20;
constexpr std::size_t kLongestCachedWord = 64;

/// The longest added token that begins at `position`, or nullptr.
const AddedToken* match_at(std::string_view text, std::size_t position,
                           const std::vector<const AddedToken*>& longest_first) {
  for (const AddedToken* token : longest_first) {
    if (text.compare(position, token->content.size(), token->content) == 0) return token;
  }
  return nullptr;
}

}  // namespace

Encoder::Encoder(const Tokenizer& tokenizer, SpecialText special)
    : tokenizer_(tokenizer), special_(special) {
  for (const AddedToken& token : tokenizer.added_tokens()) {
    passes_[token.normalized ? 1 : 0].push_back(&token);
  }
  for (auto& pass : passes_) {
    std::stable_sort(pass.begin(), pass.end(), [](const AddedToken* a, const AddedToken* b) {
      return a->content.size() > b->content.size();
    });
    // Nothing to recognise: the whole pass may be left out.
    if (special == SpecialText::kPlain &&
        std::all_of(pass.begin(), pass.end(), [](const AddedToken* t) { return t->special; })) {
      pass.clear();
    }
  }
}

void Encoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  encode_pass(text, 0, ids);
}

void Encoder::encode_pass(std::string_view text, std::size_t pass, std::vector<std::int32_t>& ids) {
  if (pass == passes_.size()) {
    encode_words(text, ids);
    return;
  }
  const auto& tokens = passes_[pass];
  if (tokens.empty()) {
    encode_pass(text, pass + 1, ids);
    return;
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const AddedToken* token = match_at(text, i, tokens);
    if (token == nullptr) {
      ++i;
      continue;
    }
    const std::size_t end = i + token->content.size();
    if (!token->special || special_ == SpecialText::kRecognise) {
      encode_pass(text.substr(begin, i - begin), pass + 1, ids);
      ids.push_back(token->id);
      begin = end;
    }
    i = end;
  }
  encode_pass(text.substr(begin), pass + 1, ids);
}

void Encoder::encode_words(std::string_view text, std::vector<std::int32_t>& ids) {
  for_each_word(text, [&](std::string_view word) {
    if (word.size() > kLongestCachedWord) {
      merge_word(word);
      ids.insert(ids.end(), symbols_.begin(), symbols_.end());
      return;
    }
    const auto [index, inserted] = words_.find_or_insert(word);
    if (inserted) {
      merge_word(word);
      ranges_.push_back({static_cast<std::int64_t>(word_ids_.size()),
                         static_cast<std::int32_t>(symbols_.size())});
      word_ids_.insert(word_ids_.end(), symbols_.begin(), symbols_.end());
    }
    const Range range = ranges_[static_cast<std::size_t>(index)];
    const std::int32_t* first = word_ids_.data() + range.begin;
    ids.insert(ids.end(), first, first + range.size);
    if (inserted && words_.num_bytes() > kCacheBytes) {
      words_.clear();
      ranges_.clear();
      word_ids_.clear();
    }
  });
}

void Encoder::merge_word(std::string_view word) {
  ULMUS_CHECK(word.size() < std::size_t{1} << 31U, "a word of ", word.size(), " bytes");
  symbols_.clear();
  for (const char byte : word) {
    symbols_.push_back(tokenizer_.byte_id(static_cast<std::uint8_t>(byte)));
  }
  tokenizer_.merges().apply(symbols_);
}

}  // namespace ulmus::data
