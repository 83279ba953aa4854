#include "ulmus/tensor/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace ulmus {
namespace {

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kF32), 4);
  EXPECT_EQ(size_of(DType::kF64), 8);
  EXPECT_EQ(size_of(DType::kI32), 4);
  EXPECT_EQ(size_of(DType::kI64), 8);
  EXPECT_EQ(size_of(DType::kU8), 1);
  EXPECT_EQ(concat(DType::kF32, ' ', DType::kI64, ' ', DType::kU8), "f32 i64 u8");
  EXPECT_EQ(kDTypeOf<double>, DType::kF64);
}

TEST(DType, DispatchGivesTheElementType) {
  const auto bytes = [](DType dtype) {
    std::size_t size = 0;
    dispatch_float(dtype, "test", [&]<class T>() { size = sizeof(T); });
    return size;
  };
  EXPECT_EQ(bytes(DType::kF32), 4U);
  EXPECT_EQ(bytes(DType::kF64), 8U);
}

TEST(DType, DispatchOfAnIntegerNamesIt) {
  const std::string message =
      test::error_of([] { dispatch_float(DType::kI32, "some_op", []<class T>() {}); });
  EXPECT_THAT(message, testing::HasSubstr("some_op: dtype i32"));
}

}  // namespace
}  // namespace ulmus
