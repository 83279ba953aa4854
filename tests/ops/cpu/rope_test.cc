#include "ulmus/ops/rope.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

struct Case {
  std::int64_t num_tokens;
  std::int64_t num_heads;
  std::int64_t head_width;
};
constexpr Case kCases[] = {{0, 2, 8},  {1, 1, 2},    {3, 2, 14},  {5, 1, 16},
                           {7, 3, 18}, {131, 2, 64}, {61, 5, 34}, {1031, 4, 32}};

std::vector<Output> run(const Case& c, RopeDirection direction, DeviceFixture& f) {
  constexpr std::int32_t kPositions = 101;
  const Shape shape = {c.num_tokens, c.num_heads, c.head_width};
  const TensorView x = f.normal(DType::kF32, shape, "x");
  const TensorView y = f.stale(DType::kF32, shape);
  RopeArgs args = {.y = y,
                   .x = x,
                   .table = f.floats(DType::kF32, {kPositions, c.head_width},
                                     rope_table({}, kPositions, c.head_width)),
                   .positions = f.i32({c.num_tokens}, DeviceFixture::integers(
                                                          c.num_tokens, kPositions, "positions")),
                   .direction = direction};
  rope(args, f.ctx);
  args.y = x;
  rope(args, f.ctx);
  return {{"y", f.values(y), test::kElementF32, test::Scale::kLargest},
          {"in place", f.values(x), test::kElementF32, test::Scale::kLargest}};
}

TEST(CpuRope, LikeTheOracle) {
  for (const Case& c : kCases) {
    for (const RopeDirection direction : {RopeDirection::kForward, RopeDirection::kBackward}) {
      const std::string name = test::shape_name({c.num_tokens, c.num_heads, c.head_width});
      const auto body = [&](DeviceFixture& f) { return run(c, direction, f); };
      test::expect_like_oracle(name, test::Bits::kOfAnyThreadCount, body);
    }
  }
}

}  // namespace
}  // namespace ulmus::ops
