#include "ulmus/ops/initialize.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

constexpr PhiloxKey kKey = {17, 4711};
constexpr std::int64_t kFirst = (std::int64_t{1} << 32U) - 100;  // over the counter's first word

TEST(CpuInitialize, TheOraclesBits) {
  for (const std::int64_t n : {0, 1, 9, 256, 257, 3001}) {
    test::expect_like_oracle(
        test::shape_name({n}), test::Bits::kOfAnyThreadCount, [n](DeviceFixture& f) {
          const TensorView x = f.stale(DType::kF32, {n});
          initialize_truncated_normal(
              {.x = x, .key = kKey, .std = 0.02, .bound = 2.0, .first_element = kFirst}, f.ctx);
          return std::vector<Output>{{"x", f.values(x)}};
        });
  }
}

TEST(CpuInitialize, SameBitsWhereverATensorIsCut) {
  DeviceFixture f(Backend::kCpu, 2);
  const TensorView whole = f.stale(DType::kF32, {1021});
  const TensorView parts = f.stale(DType::kF32, {1021});
  initialize_truncated_normal({.x = whole, .key = kKey, .first_element = kFirst}, f.ctx);
  std::int64_t begin = 0;
  for (const std::int64_t end : {1, 6, 13, 300, 1021}) {
    initialize_truncated_normal(
        {.x = parts.rows(begin, end), .key = kKey, .first_element = kFirst + begin}, f.ctx);
    begin = end;
  }
  EXPECT_EQ(f.values(parts), f.values(whole));
}

}  // namespace
}  // namespace ulmus::ops
