#include "ulmus/data/bpe_merges.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/data/test_text.h"

namespace ulmus::data {
namespace {

/// The definition, word for word.
std::vector<std::int32_t> apply_slowly(const std::vector<Merge>& merges,
                                       std::vector<std::int32_t> symbols) {
  for (;;) {
    std::optional<std::size_t> found_at;
    std::int32_t result = 0;
    for (const Merge& merge : merges) {
      for (std::size_t i = 0; i + 1 < symbols.size() && !found_at; ++i) {
        if (symbols[i] == merge.left && symbols[i + 1] == merge.right) {
          found_at = i;
          result = merge.result;
        }
      }
      if (found_at) break;
    }
    if (!found_at) return symbols;
    symbols[*found_at] = result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(*found_at) + 1);
  }
}

/// Rules over an alphabet of `num_bytes`; each joins two earlier symbols at random.
std::vector<Merge> random_merges(TestRandom& random, std::uint32_t num_bytes, std::uint32_t n) {
  std::vector<Merge> merges;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto left = static_cast<std::int32_t>(random.below(num_bytes + i));
    const auto right = static_cast<std::int32_t>(random.below(num_bytes + i));
    bool known = false;
    for (const Merge& merge : merges)
      known |= merge.left == left && merge.right == right;
    if (!known) merges.push_back({left, right, static_cast<std::int32_t>(num_bytes + i)});
  }
  return merges;
}

TEST(BpeMerges, AppliesLowestRankLeftmostFirst) {
  TestRandom random("bpe merges");
  for (int round = 0; round < 300; ++round) {
    const std::vector<Merge> merges = random_merges(random, 3, 12);
    const BpeMerges fast(merges);
    for (const std::uint32_t length : {0U, 1U, 2U, 7U, 48U, 49U, 130U}) {
      std::vector<std::int32_t> symbols;
      for (std::uint32_t i = 0; i < length; ++i) {
        symbols.push_back(static_cast<std::int32_t>(random.below(3)));
      }
      const auto expected = apply_slowly(merges, symbols);
      fast.apply(symbols);
      ASSERT_EQ(symbols, expected) << "round " << round << " length " << length;
    }
  }
}

TEST(BpeMerges, LaterOfTwoEqualPairsRules) {
  const BpeMerges merges({{0, 1, 3}, {1, 2, 4}, {0, 1, 3}});
  std::vector<std::int32_t> symbols{0, 1, 2};
  merges.apply(symbols);
  EXPECT_EQ(symbols, (std::vector<std::int32_t>{0, 4}));
}

TEST(BpeMerges, LongRunsDoNotTakeForever) {
  const BpeMerges merges({{0, 0, 1}, {1, 1, 2}});
  std::vector<std::int32_t> symbols(std::size_t{1} << 20U, 0);
  merges.apply(symbols);
  EXPECT_EQ(symbols, std::vector<std::int32_t>(std::size_t{1} << 18U, 2));
}

}  // namespace
}  // namespace ulmus::data
