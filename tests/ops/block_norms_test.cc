#include "ulmus/ops/block_norms.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;

std::vector<double> norms(DeviceFixture& f, const TensorView& x, const BlockRange& blocks) {
  const TensorView sums = f.stale(DType::kF64, {blocks.num_blocks()});
  block_norms({.sums = sums, .x = x, .blocks = blocks}, f.ctx);
  return f.values(sums);
}

std::vector<double> norms(DeviceFixture& f, const TensorView& x, std::int64_t slice_elements) {
  return norms(f, x, BlockRange::all(x.numel(), slice_elements));
}

TEST(BlockNorms, TheLastBlockIsShorter) {
  DeviceFixture f;
  std::vector<double> values(2 * kBlockElements + 3, 1.0);
  values[kBlockElements] = 3.0;  // first of the second block
  values.back() = -2.0;
  EXPECT_EQ(
      norms(f, f.floats(DType::kF32, {2 * kBlockElements + 3}, values), 2 * kBlockElements + 3),
      (std::vector<double>{kBlockElements, kBlockElements + 8, 2 + 4}));
}

TEST(BlockNorms, EverySliceStartsABlock) {
  DeviceFixture f;
  const std::int64_t slice = kBlockElements + 1;
  std::vector<double> values(static_cast<std::size_t>(2 * slice), 2.0);
  values[kBlockElements] = 5.0;                            // alone in its block
  values[static_cast<std::size_t>(2 * slice - 1)] = -7.0;  // likewise
  const std::vector<double> expected = {4.0 * kBlockElements, 25, 4.0 * kBlockElements, 49};
  EXPECT_EQ(norms(f, f.floats(DType::kF32, {2, slice}, values), slice), expected);
  EXPECT_EQ(norms(f, f.f64({2, slice}, values), slice), expected);
}

TEST(BlockNorms, SmallSlicesAndNoElements) {
  DeviceFixture f;
  EXPECT_EQ(norms(f, f.f64({3, 2}, {1, 2, 3, 4, 5, 6}), 2), (std::vector<double>{5, 25, 61}));
  EXPECT_TRUE(norms(f, f.zeros(DType::kF32, {0}), 0).empty());
}

TEST(BlockNorms, APartOfATensorGivesThoseOfItsSums) {
  DeviceFixture f(Backend::kCpu, 2);
  const std::int64_t slice = kBlockElements + 9;
  const TensorView x = f.normal(DType::kF32, {3, slice}, "x");
  const std::vector<double> all = norms(f, x, slice);
  ASSERT_EQ(all.size(), 6U);
  for (std::int64_t begin = 0; begin <= 6; ++begin) {
    for (std::int64_t end = begin; end <= 6; ++end) {
      const BlockRange part{3 * slice, slice, begin, end};
      const TensorView elements =
          x.reshape({3 * slice}).rows(part.element_begin(), part.element_end());
      EXPECT_EQ(norms(f, elements, part),
                std::vector<double>(all.begin() + begin, all.begin() + end));
    }
  }
}

TEST(BlockNorms, ElementsThatAreNotThoseOfTheBlocksAreRefused) {
  DeviceFixture f;
  const TensorView x = f.zeros(DType::kF32, {10});
  const TensorView sums = f.zeros(DType::kF64, {1});
  const auto run = [&](const BlockRange& blocks) {
    block_norms({.sums = sums, .x = x, .blocks = blocks}, f.ctx);
  };
  EXPECT_THROW(run(BlockRange::all(11, 11)), Error);
  EXPECT_THROW(run({10, 10, 0, 2}), Error);
  EXPECT_THROW(run({10, 10, 1, 0}), Error);
}

}  // namespace
}  // namespace ulmus::ops
