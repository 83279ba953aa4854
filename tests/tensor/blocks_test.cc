#include "ulmus/tensor/blocks.h"

#include <gtest/gtest.h>

#include "ulmus/base/error.h"

namespace ulmus {
namespace {

TEST(Blocks, PlainTensorIsOneSlice) {
  EXPECT_EQ(num_blocks(0, 0), 0);
  EXPECT_EQ(num_blocks(1, 1), 1);
  EXPECT_EQ(num_blocks(4096, 4096), 1);
  EXPECT_EQ(num_blocks(4097, 4097), 2);
  EXPECT_EQ(block_begin(1, 4097, 4097), 4096);
  EXPECT_EQ(block_begin(2, 4097, 4097), 4097);
}

TEST(Blocks, SlicesStartTheirOwnBlocks) {
  EXPECT_EQ(num_blocks(15'000, 5'000), 6);
  const std::int64_t expected[] = {0, 4096, 5000, 9096, 10'000, 14'096, 15'000};
  for (std::int64_t block = 0; block <= 6; ++block) {
    EXPECT_EQ(block_begin(block, 15'000, 5'000), expected[block]);
  }
}

TEST(Blocks, SlicesMustDivideTheTensor) {
  EXPECT_THROW(num_blocks(10, 3), Error);
  EXPECT_THROW(num_blocks(10, 0), Error);
  EXPECT_THROW(num_blocks(-1, 1), Error);
  EXPECT_THROW(block_begin(7, 15'000, 5'000), Error);
  EXPECT_THROW(block_begin(-1, 15'000, 5'000), Error);
}

}  // namespace
}  // namespace ulmus
