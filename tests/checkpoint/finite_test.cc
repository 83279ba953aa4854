#include "ulmus/checkpoint/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ulmus/base/error.h"

namespace ulmus::checkpoint {
namespace {

template <class T>
void finds_each_kind() {
  using Limits = std::numeric_limits<T>;
  for (const std::size_t at : {0, 1, 1023, 1024, 4999}) {
    for (const T bad :
         {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::signaling_NaN()}) {
      std::vector<T> values(5000, Limits::max());
      values[at] = bad;
      const auto found = first_nonfinite(std::as_bytes(std::span(values)), kDTypeOf<T>);
      EXPECT_EQ(found, static_cast<std::int64_t>(at));
    }
  }
  const std::vector<T> good = {T{0}, Limits::max(), Limits::lowest(), Limits::denorm_min()};
  EXPECT_EQ(first_nonfinite(std::as_bytes(std::span(good)), kDTypeOf<T>), -1);
  EXPECT_EQ(first_nonfinite({}, kDTypeOf<T>), -1);
}

TEST(FirstNonfinite, FindsEachKindEverywhere) {
  finds_each_kind<float>();
  finds_each_kind<double>();
}

TEST(FirstNonfinite, NeedsNoAlignment) {
  std::vector<float> values = {1.0F, 2.0F, std::numeric_limits<float>::infinity()};
  std::vector<std::byte> shifted(1 + values.size() * sizeof(float));
  const auto bytes = std::as_bytes(std::span(values));
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  EXPECT_EQ(first_nonfinite(std::span(shifted).subspan(1), DType::kF32), 2);
}

TEST(FirstNonfinite, OnlyFloats) { EXPECT_THROW(first_nonfinite({}, DType::kI64), Error); }

}  // namespace
}  // namespace ulmus::checkpoint
