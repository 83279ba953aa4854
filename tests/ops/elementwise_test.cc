#include "ulmus/ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;

TEST(Fill, EveryElementType) {
  DeviceFixture f;
  const TensorView f32 = f.zeros(DType::kF32, {3});
  const TensorView f64 = f.zeros(DType::kF64, {2, 2});
  const TensorView i32 = f.zeros(DType::kI32, {3});
  const TensorView i64 = f.zeros(DType::kI64, {2});
  const TensorView u8 = f.zeros(DType::kU8, {5});
  fill({.x = f32, .value = -1.5}, f.ctx);
  fill({.x = f64, .value = 0.1}, f.ctx);
  fill({.x = i32, .value = -1}, f.ctx);
  fill({.x = i64, .value = 3'000'000'000.0}, f.ctx);
  fill({.x = u8, .value = 200}, f.ctx);
  EXPECT_EQ(f.read<float>(f32), std::vector<float>(3, -1.5F));
  EXPECT_EQ(f.read<double>(f64), std::vector<double>(4, 0.1));
  EXPECT_EQ(f.read<std::int32_t>(i32), std::vector<std::int32_t>(3, -1));
  EXPECT_EQ(f.read<std::int64_t>(i64), std::vector<std::int64_t>(2, 3'000'000'000));
  EXPECT_EQ(f.read<std::uint8_t>(u8), std::vector<std::uint8_t>(5, 200));
}

TEST(Copy, TakesEveryBitOfEveryType) {
  DeviceFixture f(Backend::kCpu, 2);
  const TensorView x = f.floats(DType::kF32, {3}, {-0.0, std::nan(""), 1e-45});
  const TensorView y = f.stale(DType::kF32, {3});
  copy({.y = y, .x = x}, f.ctx);
  const auto bits = [&](ConstTensorView view) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(view.size_bytes()));
    f.device->copy_to_host(std::span(bytes), view);
    return bytes;
  };
  EXPECT_EQ(bits(y), bits(x));
  const std::int64_t n = 100'003;
  const TensorView large = f.normal(DType::kF64, {n}, "large");
  const TensorView target = f.stale(DType::kF64, {n});
  copy({.y = target, .x = large}, f.ctx);
  EXPECT_EQ(f.values(target), f.values(large));
}

TEST(Copy, WindowsThatMeetAndOtherTypesAreRefused) {
  DeviceFixture f;
  const TensorView x = f.zeros(DType::kF32, {8});
  EXPECT_THROW(copy({.y = x.rows(0, 4), .x = x.rows(3, 7)}, f.ctx), Error);
  EXPECT_THROW(copy({.y = x, .x = f.zeros(DType::kF64, {8})}, f.ctx), Error);
  EXPECT_THROW(copy({.y = x, .x = f.zeros(DType::kF32, {4})}, f.ctx), Error);
}

TEST(Add, ApartAndInPlace) {
  DeviceFixture f;
  const TensorView a = f.f64({2, 2}, {1, 2, 3, 4});
  const TensorView b = f.f64({2, 2}, {10, 20, 30, 40});
  const TensorView y = f.stale(DType::kF64, {2, 2});
  add({.y = y, .a = a, .b = b}, f.ctx);
  EXPECT_EQ(f.values(y), (std::vector<double>{11, 22, 33, 44}));
  add({.y = a, .a = a, .b = b}, f.ctx);
  EXPECT_EQ(f.values(a), f.values(y));
  add({.y = b, .a = a, .b = b}, f.ctx);
  EXPECT_EQ(f.values(b), (std::vector<double>{21, 42, 63, 84}));
}

}  // namespace
}  // namespace ulmus::ops
