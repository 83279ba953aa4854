#include "ulmus/checkpoint/tensor_hash.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "ulmus/base/error.h"

namespace ulmus::checkpoint {
namespace {

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(i) * 0.25F);
  return values;
}

std::uint64_t whole_hash(const std::vector<float>& values, std::int64_t slice_elements) {
  const auto numel = static_cast<std::int64_t>(values.size());
  TensorHash hash(BlockRange::all(numel, slice_elements), 4);
  hash.add_blocks(0, num_blocks(numel, slice_elements), std::as_bytes(std::span(values)));
  EXPECT_TRUE(hash.is_complete());
  return hash.value();
}

TEST(TensorHash, IsTheSumOverBlocksWithTheirNumbersAsSeeds) {
  const std::vector<float> values = numbers(10'000);
  std::uint64_t plain = 0;
  plain += XXH3_64bits_withSeed(values.data(), 4096 * 4, 0);
  plain += XXH3_64bits_withSeed(values.data() + 4096, 4096 * 4, 1);
  plain += XXH3_64bits_withSeed(values.data() + 8192, (10'000 - 8192) * 4, 2);
  EXPECT_EQ(whole_hash(values, 10'000), plain);

  std::uint64_t stacked = 0;
  stacked += XXH3_64bits_withSeed(values.data(), 4096 * 4, 0);
  stacked += XXH3_64bits_withSeed(values.data() + 4096, (5000 - 4096) * 4, 1);
  stacked += XXH3_64bits_withSeed(values.data() + 5000, 4096 * 4, 2);
  stacked += XXH3_64bits_withSeed(values.data() + 9096, (5000 - 4096) * 4, 3);
  EXPECT_EQ(whole_hash(values, 5000), stacked);
}

TEST(TensorHash, DoesNotDependOnTheOrderOfRanges) {
  const std::vector<float> values = numbers(15'000);
  const std::uint64_t whole = whole_hash(values, 5000);
  std::vector<std::int64_t> order = {0, 1, 2, 3, 4, 5};
  do {
    TensorHash hash(BlockRange::all(15'000, 5000), 4);
    for (const std::int64_t block : order) {
      EXPECT_FALSE(hash.is_complete());
      const std::int64_t begin = block_begin(block, 15'000, 5000);
      const std::int64_t end = block_begin(block + 1, 15'000, 5000);
      hash.add_blocks(block, block + 1,
                      std::as_bytes(std::span(values))
                          .subspan(static_cast<std::size_t>(begin * 4),
                                   static_cast<std::size_t>((end - begin) * 4)));
    }
    ASSERT_TRUE(hash.is_complete());
    ASSERT_EQ(hash.value(), whole);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(TensorHash, SwappedBlocksAndSwappedNumbersAreSeen) {
  const std::vector<float> values = numbers(8192);
  std::vector<float> swapped(values.begin() + 4096, values.end());
  swapped.insert(swapped.end(), values.begin(), values.begin() + 4096);
  EXPECT_NE(whole_hash(values, 8192), whole_hash(swapped, 8192));
  std::vector<float> other = values;
  std::swap(other[17], other[18]);
  EXPECT_NE(whole_hash(values, 8192), whole_hash(other, 8192));
}

TEST(TensorHash, RefusesBytesThatAreNotTheBlocks) {
  const std::vector<float> values = numbers(10'000);
  TensorHash hash(BlockRange::all(10'000, 5000), 4);
  EXPECT_THROW(hash.add_blocks(0, 1, std::as_bytes(std::span(values)).first(4)), Error);
  EXPECT_THROW(hash.add_blocks(0, 5, std::as_bytes(std::span(values))), Error);
  EXPECT_THROW(TensorHash({10'000, 3, 0, 1}, 4), Error);
}

TEST(ForPieces, CoversTheTensorInWholeBlocks) {
  for (const std::int64_t max_elements : {4096, 8192, 12'287, 1 << 20}) {
    std::int64_t block = 0;
    std::int64_t element = 0;
    for_pieces(BlockRange::all(15'000, 5000), max_elements, [&](const Piece& piece) {
      EXPECT_EQ(piece.block_begin, block);
      EXPECT_EQ(piece.element_begin, element);
      EXPECT_EQ(piece.element_begin, block_begin(block, 15'000, 5000));
      EXPECT_LE(piece.element_end - piece.element_begin, max_elements);
      block = piece.block_end;
      element = piece.element_end;
    });
    EXPECT_EQ(block, 6);
    EXPECT_EQ(element, 15'000);
  }
  for_pieces(BlockRange{}, 4096, [](const Piece&) { FAIL(); });
}

}  // namespace
}  // namespace ulmus::checkpoint
