#include "ulmus/ops/initialize.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;

const PhiloxKey kKey = philox_key(3, RandomPurpose::kTest, "initialize");

TEST(Initialize, ValuesArePhiloxNormals) {
  DeviceFixture f;
  const TensorView x = f.stale(DType::kF32, {3, 50});
  initialize_truncated_normal({.x = x, .key = kKey, .std = 0.02, .bound = 2.0}, f.ctx);
  const std::vector<float> values = f.read<float>(x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<float>(0.02 * philox_truncated_normal(kKey, i, 2.0)));
  }
}

TEST(Initialize, AValueDoesNotDependOnThePiece) {
  DeviceFixture one(Backend::kRef, 1);
  DeviceFixture three(Backend::kRef, 3);
  const TensorView whole = one.zeros(DType::kF64, {10'000});
  const TensorView pieces = three.zeros(DType::kF64, {10'000});
  initialize_truncated_normal({.x = whole, .key = kKey}, one.ctx);
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 6'001}, {6'001, 10'000}}) {
    initialize_truncated_normal({.x = pieces.rows(begin, end), .key = kKey, .first_element = begin},
                                three.ctx);
  }
  EXPECT_EQ(one.values(whole), three.values(pieces));
}

TEST(Initialize, RejectsBoundsThatCutEverything) {
  DeviceFixture f;
  const TensorView x = f.zeros(DType::kF32, {4});
  EXPECT_THROW(initialize_truncated_normal({.x = x, .key = kKey, .bound = 0.0}, f.ctx), Error);
}

}  // namespace
}  // namespace ulmus::ops
