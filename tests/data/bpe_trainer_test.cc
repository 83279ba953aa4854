#include "ulmus/data/bpe_trainer.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tests/data/test_text.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

WordCounts count(std::string_view text, int num_threads = 1) {
  ThreadPool pool(num_threads);
  WordCounts counts;
  const std::array<std::string_view, 1> documents{text};
  counts.add(documents, pool);
  return counts;
}

BpeTrainerOptions options(int vocab_size, std::int64_t min_count) {
  BpeTrainerOptions made;
  made.vocab_size = vocab_size;
  made.min_count = min_count;
  return made;
}

TEST(WordCounts, DoNotDependOnThreadsOrCalls) {
  const std::string text = austen_excerpt();
  const WordCounts one = count(text);
  ThreadPool pool(3);
  WordCounts pieces;
  std::vector<std::string_view> documents;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find("\n\n", begin);
    // A paragraph with its blank lines, so that the words stay those of the whole text.
    const std::size_t next =
        end == std::string::npos ? text.size() : std::min(text.size(), end + 2);
    documents.push_back(std::string_view(text).substr(begin, next - begin));
    begin = next;
  }
  for (std::size_t i = 0; i < documents.size(); i += 10) {
    pieces.add(std::span(documents).subspan(i, std::min<std::size_t>(10, documents.size() - i)),
               pool);
  }
  EXPECT_EQ(pieces.num_text_bytes(), static_cast<std::int64_t>(text.size()));
  std::int64_t total = 0;
  for (const auto& word : one.sorted()) {
    total += word.count * static_cast<std::int64_t>(word.bytes.size());
  }
  EXPECT_EQ(total, static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(train_bpe(one, options(600, 2)).to_json(),
            train_bpe(count(text, 4), options(600, 2)).to_json());
}

TEST(WordCounts, LeaveOutEndlessWordsAndSaySo) {
  const std::string text = "abc " + std::string(WordCounts::kLongestWordBytes + 1, 'x') + " abc";
  const WordCounts counts = count(text);
  EXPECT_EQ(counts.num_left_out(), 1);
  EXPECT_EQ(counts.num_words(), 2);
}

TEST(BpeTrainer, MakesTheVocabularyThatHuggingFaceMakes) {
  const Tokenizer golden = Tokenizer::load(test_data("tokenizer-hf.json"));
  const Tokenizer trained = train_bpe(count(austen_excerpt(), 2), options(1024, 2));
  EXPECT_EQ(trained.vocab_size(), 1024);
  EXPECT_EQ(trained.merges().list(), golden.merges().list());
  EXPECT_EQ(trained.to_json(), golden.to_json());
  EXPECT_EQ(trained.fingerprint(), golden.fingerprint());
  EXPECT_EQ(trained.end_of_text_id(), 0);
}

/// Counts all pairs afresh at every step.
std::vector<Merge> train_slowly(const WordCounts& counts, int num_merges) {
  std::vector<std::string> tokens{"<|endoftext|>"};
  std::map<std::string, std::int32_t> ids;
  const Tokenizer bytes_only = train_bpe(counts, options(257, 1));
  for (int id = 1; id < 257; ++id) {
    tokens.emplace_back(bytes_only.token_bytes(id));
    ids[tokens.back()] = id;
  }
  std::vector<std::pair<std::vector<std::int32_t>, std::int64_t>> words;
  for (const auto& [bytes, n] : counts.sorted()) {
    std::vector<std::int32_t> symbols;
    for (const char byte : bytes)
      symbols.push_back(ids[std::string(1, byte)]);
    words.emplace_back(symbols, n);
  }
  std::vector<Merge> merges;
  while (static_cast<int>(merges.size()) < num_merges) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> pairs;
    for (const auto& [symbols, n] : words) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        pairs[{symbols[i], symbols[i + 1]}] += n;
      }
    }
    std::pair<std::int32_t, std::int32_t> best;
    std::int64_t best_count = 0;
    for (const auto& [pair, n] : pairs) {
      if (n > best_count) {
        best = pair;
        best_count = n;
      }
    }
    if (best_count == 0) break;
    const std::string joined = tokens[static_cast<std::size_t>(best.first)] +
                               tokens[static_cast<std::size_t>(best.second)];
    const auto [place, is_new] = ids.emplace(joined, static_cast<std::int32_t>(tokens.size()));
    if (is_new) tokens.push_back(joined);
    merges.push_back({best.first, best.second, place->second});
    const BpeMerges rule(std::vector<Merge>{merges.back()});
    for (auto& [symbols, n] : words)
      rule.apply(symbols);
  }
  return merges;
}

TEST(BpeTrainer, IncrementalCountsAreTheRealOnes) {
  TestRandom random("bpe trainer");
  for (int round = 0; round < 20; ++round) {
    std::string text;
    for (int word = 0; word < 60; ++word) {
      const std::uint32_t length = 1 + random.below(12);
      for (std::uint32_t i = 0; i < length; ++i) {
        text.push_back(
            static_cast<char>('a' + random.below(2 + static_cast<std::uint32_t>(round) % 3)));
      }
      text += ' ';
    }
    const WordCounts counts = count(text);
    const std::vector<Merge> expected = train_slowly(counts, 60);
    EXPECT_EQ(train_bpe(counts, options(257 + 60, 1)).merges().list(), expected) << text;
  }
}

TEST(BpeTrainer, StopsWhenPairsRunOut) {
  const Tokenizer tokenizer = train_bpe(count("ab ab ab"), options(1000, 2));
  EXPECT_EQ(tokenizer.vocab_size(), 257 + 2);  // "ab", " ab"
}

TEST(BpeTrainer, NoTextCanSpellASpecialToken) {
  BpeTrainerOptions with_special = options(400, 1);
  with_special.special_tokens = {"abcd"};
  const Tokenizer tokenizer = train_bpe(count("abcd abcd abcd xabcd"), with_special);
  for (const std::int32_t id : tokenizer.encode("abcd abcd"))
    EXPECT_NE(id, 0);
}

TEST(BpeTrainer, RefusesImpossibleOptions) {
  const WordCounts counts = count("text");
  EXPECT_THROW(train_bpe(counts, options(256, 2)), InputError);
  EXPECT_THROW(train_bpe(counts, options(300, 0)), InputError);
  BpeTrainerOptions twice = options(300, 1);
  twice.special_tokens = {"<a>", "<a>"};
  EXPECT_THROW(train_bpe(counts, twice), InputError);
}

}  // namespace
}  // namespace ulmus::data
