#include "ulmus/data/word_map.h"

#include <xxhash.h>

#include <limits>

#include "ulmus/base/check.h"

namespace ulmus::data {

namespace {

constexpr std::size_t kFirstSlots = 1024;

}  // namespace

WordMap::Found WordMap::find_or_insert(std::string_view word) {
  const std::uint64_t hash = XXH3_64bits(word.data(), word.size());
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const std::uint32_t index = slots_[slot] - 1;
    const Word& known = words_[index];
    if (known.hash == hash && known.length == word.size() &&
        std::string_view(bytes_).substr(known.offset, known.length) == word) {
      return {static_cast<std::int64_t>(index), false};
    }
  }
  ULMUS_CHECK(words_.size() < std::numeric_limits<std::uint32_t>::max() - 1,
              "more than 2^32 distinct words");
  words_.push_back({hash, bytes_.size(), word.size()});
  bytes_.append(word);
  slots_[slot] = static_cast<std::uint32_t>(words_.size());
  if (words_.size() * 2 > slots_.size()) grow();
  return {size() - 1, true};
}

std::string_view WordMap::word(std::int64_t index) const {
  const Word& word = words_[static_cast<std::size_t>(index)];
  return std::string_view(bytes_).substr(word.offset, word.length);
}

std::int64_t WordMap::num_bytes() const {
  return static_cast<std::int64_t>(slots_.size() * sizeof(slots_[0]) +
                                   words_.size() * sizeof(Word) + bytes_.size());
}

void WordMap::clear() {
  slots_.assign(kFirstSlots, 0);
  words_.clear();
  bytes_.clear();
}

void WordMap::grow() {
  slots_.assign(slots_.size() * 2, 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::size_t slot = words_[i].hash & mask;
    while (slots_[slot] != 0)
      slot = (slot + 1) & mask;
    slots_[slot] = static_cast<std::uint32_t>(i + 1);
  }
}

}  // namespace ulmus::data
