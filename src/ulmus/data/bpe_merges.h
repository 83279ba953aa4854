#pragma once

#include <cstdint>
#include <vector>

namespace ulmus::data {

/// One rule of byte-pair encoding: `left` followed by `right` becomes `result`.
struct Merge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t result;
  bool operator==(const Merge&) const = default;
};

/// The rules of a vocabulary, ranked by their place in the list, and their application.
class BpeMerges {
 public:
  BpeMerges() : BpeMerges(std::vector<Merge>{}) {}
  /// A pair that occurs twice keeps its later rank, as Hugging Face tokenizers has it.
  explicit BpeMerges(std::vector<Merge> merges);

  const std::vector<Merge>& list() const { return merges_; }

  /// Applies the rules in place: as long as some neighbours are the pair of a rule, the rule of
  /// lowest rank, of its places the leftmost, is applied once. O(n^2) for short words,
  /// O(n log n) for long ones.
  void apply(std::vector<std::int32_t>& symbols) const;

 private:
  static constexpr std::int32_t kNone = -1;
  std::int32_t rank_of(std::int32_t left, std::int32_t right) const;
  void apply_short(std::vector<std::int32_t>& symbols) const;
  void apply_long(std::vector<std::int32_t>& symbols) const;

  struct Slot {
    std::uint64_t pair;
    std::int32_t rank;  // kNone: free
  };
  std::vector<Merge> merges_;
  std::vector<Slot> slots_;
};

}  // namespace ulmus::data
