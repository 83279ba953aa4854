#include "ulmus/ops/embedding.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;

TEST(Embedding, RowsByIdWithScale) {
  DeviceFixture f;
  const TensorView y = f.stale(DType::kF64, {4, 2});
  embedding_forward({.y = y,
                     .weight = f.f64({3, 2}, {1, 2, 3, 4, 5, 6}),
                     .ids = f.i32({4}, {2, 0, 2, 1}),
                     .scale = 10.0},
                    f.ctx);
  EXPECT_EQ(f.values(y), (std::vector<double>{50, 60, 10, 20, 50, 60, 30, 40}));
}

TEST(Embedding, GradientAddsRepeatedIds) {
  DeviceFixture f;
  const TensorView grad = f.f64({3, 2}, {100, 100, 100, 100, 100, 100});
  embedding_backward({.grad_weight = grad,
                      .grad_y = f.f64({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                      .ids = f.i32({4}, {2, 0, 2, 2}),
                      .scale = 2.0},
                     f.ctx);
  EXPECT_EQ(f.values(grad), (std::vector<double>{106, 108, 100, 100, 126, 132}));
}

TEST(Embedding, NoTokens) {
  DeviceFixture f;
  const TensorView grad = f.f64({1, 2}, {1, 2});
  embedding_forward({.y = f.zeros(DType::kF64, {0, 2}), .weight = grad, .ids = f.i32({0}, {})},
                    f.ctx);
  embedding_backward(
      {.grad_weight = grad, .grad_y = f.zeros(DType::kF64, {0, 2}), .ids = f.i32({0}, {})}, f.ctx);
  EXPECT_EQ(f.values(grad), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace ulmus::ops
