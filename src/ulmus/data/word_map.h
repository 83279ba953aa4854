#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ulmus::data {

/// Numbers distinct byte strings 0, 1, 2, ... in the order of their first appearance. Open
/// addressing over XXH3-64; the bytes lie one after the other in one buffer.
class WordMap {
 public:
  WordMap() { clear(); }

  struct Found {
    std::int64_t index;
    bool inserted;
  };
  Found find_or_insert(std::string_view word);

  std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }
  /// Valid until the next insertion.
  std::string_view word(std::int64_t index) const;
  /// Rough memory in use.
  std::int64_t num_bytes() const;
  void clear();

 private:
  struct Word {
    std::uint64_t hash;
    std::uint64_t offset;
    std::uint64_t length;
  };
  void grow();

  std::vector<std::uint32_t> slots_;  // index + 1; 0 = free
  std::vector<Word> words_;
  std::string bytes_;
};

}  // namespace ulmus::data
