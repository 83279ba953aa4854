#include "ulmus/tensor/tensor_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/support/expect.h"

namespace ulmus {
namespace {

/// A [4, 6] matrix with the elements 0, 1, 2, ...
class TensorViewTest : public testing::Test {
 protected:
  TensorViewTest() { std::iota(memory_.begin(), memory_.end(), 0.0F); }
  std::array<float, 24> memory_{};
  TensorView matrix_{memory_.data(), DType::kF32, {4, 6}};
};

TEST_F(TensorViewTest, ContiguousLayout) {
  EXPECT_TRUE(matrix_.is_contiguous());
  EXPECT_EQ(matrix_.stride(0), 6);
  EXPECT_EQ(matrix_.stride(1), 1);
  EXPECT_EQ(matrix_.size_bytes(), 96);
  EXPECT_FALSE(matrix_.is_empty());
}

TEST_F(TensorViewTest, DefaultViewStandsForNotGiven) {
  const ConstTensorView view;
  EXPECT_TRUE(view.is_empty());
  EXPECT_EQ(view.numel(), 0);
  EXPECT_EQ(view.size_bytes(), 0);
}

TEST_F(TensorViewTest, RowsStayContiguous) {
  const TensorView rows = matrix_.rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 6}));
  EXPECT_TRUE(rows.is_contiguous());
  EXPECT_EQ(rows.data<float>()[0], 6.0F);
  EXPECT_EQ(matrix_.rows(4, 4).numel(), 0);
}

TEST_F(TensorViewTest, ColumnsKeepTheRowStride) {
  const ConstTensorView columns = matrix_.narrow(1, 2, 5);
  EXPECT_EQ(columns.shape(), (Shape{4, 3}));
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_EQ(columns.stride(0), 6);
  EXPECT_EQ(columns.data<float>()[columns.stride(0) * 3], 20.0F);
  EXPECT_TRUE(columns.rows(2, 3).is_contiguous());  // one row has no gap to its neighbour
}

TEST_F(TensorViewTest, SplitLastKeepsOuterGaps) {
  const TensorView heads = matrix_.narrow(1, 2, 6).split_last(2);
  EXPECT_EQ(heads.shape(), (Shape{4, 2, 2}));
  EXPECT_EQ(heads.stride(0), 6);
  EXPECT_EQ(heads.stride(1), 2);
  EXPECT_EQ(heads.data<float>()[heads.stride(0) + heads.stride(1) + 1], 11.0F);
  EXPECT_EQ(matrix_.split_last(3).narrow(2, 1, 2).data<float>()[0], 1.0F);
}

TEST_F(TensorViewTest, ReshapeAndReinterpretKeepTheBytes) {
  EXPECT_EQ(matrix_.reshape({2, 3, 4}).data<float>()[23], 23.0F);
  const TensorView bytes = matrix_.reinterpret(DType::kU8, {96});
  EXPECT_EQ(bytes.rows(8, 16).reinterpret(DType::kF32, {2}).data<float>()[0], 2.0F);
}

TEST_F(TensorViewTest, ErrorsShowBothSides) {
  using testing::HasSubstr;
  EXPECT_THAT(test::error_of([&] { matrix_.rows(2, 5); }),
              HasSubstr("slice 2..5 of axis 0 of [4, 6]"));
  EXPECT_THAT(test::error_of([&] { matrix_.narrow(1, 3, 2); }), HasSubstr("slice 3..2 of axis 1"));
  EXPECT_THAT(test::error_of([&] { matrix_.narrow(2, 0, 1); }), HasSubstr("axis 2 of [4, 6]"));
  EXPECT_THAT(test::error_of([&] { matrix_.reshape({5, 5}); }),
              HasSubstr("reshape of [4, 6] to [5, 5]"));
  EXPECT_THAT(test::error_of([&] { matrix_.narrow(1, 0, 3).reshape({12}); }), HasSubstr("gaps"));
  EXPECT_THAT(test::error_of([&] { matrix_.split_last(4); }), HasSubstr("[4, 6] in 4 parts"));
  EXPECT_THAT(test::error_of([&] { matrix_.reinterpret(DType::kF64, {13}); }),
              HasSubstr("[4, 6] of f32 as [13] of f64"));
  EXPECT_THAT(test::error_of([&] { matrix_.data<double>(); }), HasSubstr("tensor of f32"));
}

TEST_F(TensorViewTest, OverlapOfRowsAndColumns) {
  EXPECT_TRUE(overlaps(matrix_, matrix_));
  EXPECT_FALSE(overlaps(matrix_.rows(0, 2), matrix_.rows(2, 4)));
  EXPECT_TRUE(overlaps(matrix_.rows(0, 3), matrix_.rows(2, 4)));
  EXPECT_FALSE(overlaps(matrix_.rows(2, 2), matrix_));  // no elements
  // Columns of one packed matrix: their address ranges meet, their elements do not.
  EXPECT_FALSE(overlaps(matrix_.narrow(1, 0, 2), matrix_.narrow(1, 2, 6)));
  EXPECT_FALSE(overlaps(matrix_.narrow(1, 2, 6), matrix_.narrow(1, 0, 2)));
  EXPECT_TRUE(overlaps(matrix_.narrow(1, 0, 3), matrix_.narrow(1, 2, 6)));
  EXPECT_TRUE(overlaps(matrix_.narrow(1, 2, 6), matrix_.narrow(1, 0, 3)));
  EXPECT_FALSE(overlaps(matrix_.rows(1, 4).narrow(1, 0, 2), matrix_.narrow(1, 2, 6)));
  EXPECT_FALSE(overlaps(matrix_.narrow(1, 2, 6).split_last(2), matrix_.narrow(1, 0, 2)));
  // Different row strides: address ranges decide.
  EXPECT_TRUE(overlaps(matrix_.narrow(1, 0, 1), matrix_.reshape({8, 3})));
}

TEST_F(TensorViewTest, SameWindow) {
  EXPECT_TRUE(is_same_window(matrix_, matrix_.rows(0, 4)));
  EXPECT_FALSE(is_same_window(matrix_, matrix_.reshape({6, 4})));
  EXPECT_FALSE(is_same_window(matrix_.rows(0, 2), matrix_.rows(1, 3)));
  EXPECT_FALSE(is_same_window(matrix_.narrow(1, 0, 2), matrix_.reshape({12, 2}).rows(0, 4)));
}

}  // namespace
}  // namespace ulmus
