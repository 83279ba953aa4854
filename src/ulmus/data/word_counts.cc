#include <algorithm>

#include "ulmus/data/bpe_trainer.h"
#include "ulmus/data/pretokenizer.h"

namespace ulmus::data {

namespace {

constexpr std::size_t kCountedPieceBytes = std::size_t{1} << 20;

/// Documents cut at places where no word goes on, so that one long text keeps all threads busy.
std::vector<std::string_view> cut(std::span<const std::string_view> documents) {
  std::vector<std::string_view> pieces;
  for (const std::string_view document : documents) {
    for (std::size_t begin = 0; begin < document.size();) {
      const std::size_t end =
          safe_cut(document, std::min(document.size(), begin + kCountedPieceBytes));
      pieces.push_back(document.substr(begin, end - begin));
      begin = end;
    }
  }
  return pieces;
}

struct ThreadCounts {
  WordMap words;
  std::vector<std::int64_t> counts;
  std::int64_t num_left_out = 0;
};

void count_piece(std::string_view piece, ThreadCounts& into) {
  for_each_word(piece, [&](std::string_view word) {
    if (word.size() > WordCounts::kLongestWordBytes) {
      ++into.num_left_out;
      return;
    }
    const auto [index, inserted] = into.words.find_or_insert(word);
    if (inserted) into.counts.push_back(0);
    ++into.counts[static_cast<std::size_t>(index)];
  });
}

}  // namespace

void WordCounts::add(std::span<const std::string_view> documents, ThreadPool& pool) {
  const std::vector<std::string_view> pieces = cut(documents);
  std::vector<ThreadCounts> partial(static_cast<std::size_t>(pool.num_threads()));
  pool.for_items(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t item, int thread_idx) {
    count_piece(pieces[static_cast<std::size_t>(item)],
                partial[static_cast<std::size_t>(thread_idx)]);
  });
  for (const ThreadCounts& thread : partial) {
    for (std::int64_t i = 0; i < thread.words.size(); ++i) {
      add_one(thread.words.word(i), thread.counts[static_cast<std::size_t>(i)]);
    }
    num_left_out_ += thread.num_left_out;
  }
  for (const std::string_view document : documents) {
    num_text_bytes_ += static_cast<std::int64_t>(document.size());
  }
}

void WordCounts::add_one(std::string_view word, std::int64_t count) {
  const auto [index, inserted] = words_.find_or_insert(word);
  if (inserted) counts_.push_back(0);
  counts_[static_cast<std::size_t>(index)] += count;
}

std::vector<WordCounts::Word> WordCounts::sorted() const {
  std::vector<Word> words;
  words.reserve(counts_.size());
  for (std::int64_t i = 0; i < words_.size(); ++i) {
    words.push_back({words_.word(i), counts_[static_cast<std::size_t>(i)]});
  }
  std::sort(words.begin(), words.end(),
            [](const Word& a, const Word& b) { return a.bytes < b.bytes; });
  return words;
}

}  // namespace ulmus::data
