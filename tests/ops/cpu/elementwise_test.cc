#include "ulmus/ops/elementwise.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 9, 1021, 8192, 8193, 40009};

TEST(CpuElementwise, Add) {
  for (const std::int64_t n : kSizes) {
    test::expect_like_oracle(
        test::shape_name({n}), test::Bits::kOfAnyThreadCount, [n](DeviceFixture& f) {
          const TensorView a = f.normal(DType::kF32, {n}, "a");
          const TensorView b = f.normal(DType::kF32, {n}, "b");
          const TensorView y = f.stale(DType::kF32, {n});
          add({.y = y, .a = a, .b = b}, f.ctx);
          add({.y = a, .a = a, .b = b}, f.ctx);
          add({.y = b, .a = y, .b = b}, f.ctx);
          return std::vector<Output>{{"y", f.values(y)}, {"a", f.values(a)}, {"b", f.values(b)}};
        });
  }
}

TEST(CpuElementwise, FillOfEveryType) {
  for (const std::int64_t n : kSizes) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
      test::expect_like_oracle(
          test::shape_name({n}), test::Bits::kOfAnyThreadCount, [n, dtype](DeviceFixture& f) {
            const TensorView x = f.zeros(dtype, {n});
            fill({.x = x, .value = 3.0}, f.ctx);
            return std::vector<Output>{{name_of(dtype), test::values_of(f, x)}};
          });
    }
  }
}

}  // namespace
}  // namespace ulmus::ops
