#include "ulmus/data/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ulmus/base/error.h"
#include "ulmus/data/byte_alphabet.h"
#include "ulmus/data/pair_key.h"

namespace ulmus::data {

namespace {

std::int32_t left_of(std::uint64_t pair) { return static_cast<std::int32_t>(pair >> 32U); }
std::int32_t right_of(std::uint64_t pair) { return static_cast<std::int32_t>(pair & 0xFFFFFFFFU); }

/// A word of the corpus: its symbols lie in one array shared by all words and only get fewer.
struct TrainingWord {
  std::int64_t begin;
  std::int32_t size;
  std::int64_t count;
};

struct PairState {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // may name words that no longer have the pair
};

struct HeapEntry {
  std::int64_t count;
  std::uint64_t pair;
  // The heap gives the largest: the highest count, of equals the lowest pair.
  bool operator<(const HeapEntry& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(const WordCounts& counts, const BpeTrainerOptions& options);
  Tokenizer train();

 private:
  void add_initial_tokens();
  void read_words(const WordCounts& counts);
  void count_pairs();
  void merge(std::uint64_t pair);
  void merge_in_word(std::uint32_t word_idx, std::uint64_t pair, std::int32_t result);
  void change(std::int32_t left, std::int32_t right, std::int64_t by, std::uint32_t word_idx);
  void push_changed();

  const BpeTrainerOptions& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<std::int32_t> byte_ids_ = std::vector<std::int32_t>(256);
  std::vector<Merge> merges_;
  std::vector<std::int32_t> symbols_;
  std::vector<TrainingWord> words_;
  std::unordered_map<std::uint64_t, PairState> pairs_;
  std::priority_queue<HeapEntry> heap_;
  std::vector<std::uint64_t> grown_;  // pairs whose count rose in this merge, with repetitions
};

Trainer::Trainer(const WordCounts& counts, const BpeTrainerOptions& options) : options_(options) {
  add_initial_tokens();
  read_words(counts);
  count_pairs();
}

void Trainer::add_initial_tokens() {
  const auto num_fixed = static_cast<std::int64_t>(options_.special_tokens.size()) + 256;
  if (options_.vocab_size < num_fixed) {
    fail_input("vocabulary size ", options_.vocab_size, " is below ", num_fixed,
               ": the special tokens and one token for each byte");
  }
  if (options_.min_count < 1) fail_input("min_count is ", options_.min_count, ", not 1 or more");
  std::unordered_set<std::string_view> specials;
  for (const std::string& special : options_.special_tokens) {
    if (special.size() < 2) fail_input("special token \"", special, "\" is shorter than 2 bytes");
    if (!specials.insert(special).second) fail_input("special token \"", special, "\" repeated");
    tokens_.push_back(special);
  }
  for (const std::uint8_t byte : byte_order()) {
    byte_ids_[byte] = static_cast<std::int32_t>(tokens_.size());
    tokens_.emplace_back(1, static_cast<char>(byte));
  }
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    ids_.emplace(tokens_[id], static_cast<std::int32_t>(id));
  }
}

void Trainer::read_words(const WordCounts& counts) {
  for (const auto& [bytes, count] : counts.sorted()) {
    words_.push_back({static_cast<std::int64_t>(symbols_.size()),
                      static_cast<std::int32_t>(bytes.size()), count});
    for (const char byte : bytes) {
      symbols_.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
  }
}

void Trainer::count_pairs() {
  for (std::uint32_t word_idx = 0; word_idx < words_.size(); ++word_idx) {
    const TrainingWord& word = words_[word_idx];
    const std::int32_t* symbols = symbols_.data() + word.begin;
    for (std::int32_t i = 0; i + 1 < word.size; ++i) {
      change(symbols[i], symbols[i + 1], word.count, word_idx);
    }
  }
  push_changed();
}

void Trainer::change(std::int32_t left, std::int32_t right, std::int64_t by,
                     std::uint32_t word_idx) {
  const std::uint64_t pair = pair_key(left, right);
  PairState& state = pairs_[pair];
  state.count += by;
  if (by <= 0) return;
  if (state.words.empty() || state.words.back() != word_idx) state.words.push_back(word_idx);
  grown_.push_back(pair);
}

void Trainer::push_changed() {
  std::sort(grown_.begin(), grown_.end());
  grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
  for (const std::uint64_t pair : grown_) {
    if (const std::int64_t count = pairs_[pair].count; count > 0) heap_.push({count, pair});
  }
  grown_.clear();
}

Tokenizer Trainer::train() {
  const auto num_specials = static_cast<std::int32_t>(options_.special_tokens.size());
  while (static_cast<std::int64_t>(tokens_.size()) < options_.vocab_size && !heap_.empty()) {
    HeapEntry top = heap_.top();
    heap_.pop();
    const auto found = pairs_.find(top.pair);
    if (found == pairs_.end()) continue;  // merged already
    if (found->second.count < top.count) {
      // Counts fall without a note in the heap; the entry goes back with the true one.
      top.count = found->second.count;
      if (top.count > 0) heap_.push(top);
      continue;
    }
    if (found->second.count > top.count) continue;  // a later entry has the higher count
    if (top.count < options_.min_count) break;
    const auto left = static_cast<std::size_t>(left_of(top.pair));
    const auto right = static_cast<std::size_t>(right_of(top.pair));
    const auto known = ids_.find(tokens_[left] + tokens_[right]);
    if (known != ids_.end() && known->second < num_specials) continue;
    merge(top.pair);
  }
  std::vector<AddedToken> added;
  added.reserve(static_cast<std::size_t>(num_specials));
  for (std::int32_t id = 0; id < num_specials; ++id) {
    added.push_back({.id = id,
                     .content = tokens_[static_cast<std::size_t>(id)],
                     .special = true,
                     .normalized = false});
  }
  return {std::move(tokens_), std::move(merges_), std::move(added), "trained vocabulary"};
}

void Trainer::merge(std::uint64_t pair) {
  const std::int32_t left = left_of(pair);
  const std::int32_t right = right_of(pair);
  std::string bytes =
      tokens_[static_cast<std::size_t>(left)] + tokens_[static_cast<std::size_t>(right)];
  const auto [place, is_new] = ids_.emplace(bytes, static_cast<std::int32_t>(tokens_.size()));
  if (is_new) tokens_.push_back(std::move(bytes));
  const std::int32_t result = place->second;
  merges_.push_back({left, right, result});
  const std::vector<std::uint32_t> words = std::move(pairs_[pair].words);
  for (const std::uint32_t word_idx : words)
    merge_in_word(word_idx, pair, result);
  pairs_.erase(pair);
  push_changed();
}

void Trainer::merge_in_word(std::uint32_t word_idx, std::uint64_t pair, std::int32_t result) {
  TrainingWord& word = words_[word_idx];
  std::int32_t* symbols = symbols_.data() + word.begin;
  const std::int32_t left = left_of(pair);
  const std::int32_t right = right_of(pair);
  std::int32_t kept = 0;
  for (std::int32_t i = 0; i < word.size; ++i) {
    const bool here = symbols[i] == left && i + 1 < word.size && symbols[i + 1] == right;
    if (!here) {
      symbols[kept++] = symbols[i];
      continue;
    }
    if (kept > 0) {
      change(symbols[kept - 1], left, -word.count, word_idx);
      change(symbols[kept - 1], result, word.count, word_idx);
    }
    if (i + 2 < word.size) {
      change(right, symbols[i + 2], -word.count, word_idx);
      change(result, symbols[i + 2], word.count, word_idx);
    }
    symbols[kept++] = result;
    ++i;
  }
  word.size = kept;
}

}  // namespace

Tokenizer train_bpe(const WordCounts& counts, const BpeTrainerOptions& options) {
  return Trainer(counts, options).train();
}

}  // namespace ulmus::data
