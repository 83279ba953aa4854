#include "ulmus/ops/embedding.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

struct Case {
  std::int64_t num_tokens;
  std::int64_t width;
  std::int64_t vocabulary;
};
constexpr Case kCases[] = {{0, 5, 3},    {1, 1, 1},      {7, 3, 2},
                           {64, 17, 11}, {301, 128, 97}, {1031, 33, 5}};

std::vector<Output> run(const Case& c, DeviceFixture& f) {
  const TensorView ids =
      f.i32({c.num_tokens},
            DeviceFixture::integers(c.num_tokens, static_cast<std::int32_t>(c.vocabulary), "ids"));
  const TensorView weight = f.normal(DType::kF32, {c.vocabulary, c.width}, "weight");
  const TensorView y = f.stale(DType::kF32, {c.num_tokens, c.width});
  embedding_forward({.y = y, .weight = weight, .ids = ids, .scale = 1.75}, f.ctx);
  const TensorView grad_weight = f.normal(DType::kF32, {c.vocabulary, c.width}, "grad_weight");
  const TensorView grad_y = f.normal(DType::kF32, {c.num_tokens, c.width}, "grad_y");
  embedding_backward({.grad_weight = grad_weight, .grad_y = grad_y, .ids = ids, .scale = 1.75},
                     f.ctx);
  return {{"y", f.values(y), test::kElementF32},
          {"grad_weight", f.values(grad_weight), test::kReduceF32, test::Scale::kLargest}};
}

TEST(CpuEmbedding, LikeTheOracle) {
  for (const Case& c : kCases) {
    test::expect_like_oracle(test::shape_name({c.num_tokens, c.width, c.vocabulary}),
                             test::Bits::kOfAnyThreadCount,
                             [&](DeviceFixture& f) { return run(c, f); });
  }
}

}  // namespace
}  // namespace ulmus::ops
