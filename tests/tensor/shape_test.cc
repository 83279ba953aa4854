#include "ulmus/tensor/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace ulmus {
namespace {

TEST(Shape, DimensionsAndProduct) {
  const Shape shape = {4, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.dim(1), 3);
  EXPECT_EQ(shape.numel(), 60);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{7, 0}).numel(), 0);
  EXPECT_EQ(concat(shape), "[4, 3, 5]");
}

TEST(Shape, EqualityLooksAtRankAndSizes) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
}

TEST(Shape, ErrorsNameWhatWasAsked) {
  EXPECT_THAT(test::error_of([] { (Shape{4, 3}).dim(2); }), testing::HasSubstr("axis 2 of [4, 3]"));
  EXPECT_THAT(test::error_of([] { Shape({1, -2}); }), testing::HasSubstr("dimension -2"));
  EXPECT_THAT(test::error_of([] { Shape({1, 1, 1, 1, 1}); }), testing::HasSubstr("rank 5"));
}

}  // namespace
}  // namespace ulmus
