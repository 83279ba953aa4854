#include "ulmus/ops/block_norms.h"

#include "tests/ops/cpu/against_oracle.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

struct Case {
  std::int64_t num_slices;
  std::int64_t slice_elements;
};
constexpr Case kCases[] = {{1, 1},    {1, 7},    {3, 8},    {2, 9},    {5, 17},   {1, 25},
                           {1, 4095}, {1, 4096}, {3, 4097}, {7, 5000}, {2, 40009}};

TEST(CpuBlockNorms, LikeTheOracle) {
  for (const Case& c : kCases) {
    const auto body = [&](DeviceFixture& f) {
      const std::int64_t numel = c.num_slices * c.slice_elements;
      const TensorView sums = f.stale(DType::kF64, {num_blocks(numel, c.slice_elements)});
      block_norms({.sums = sums,
                   .x = f.normal(DType::kF32, {numel}, "x"),
                   .blocks = BlockRange::all(numel, c.slice_elements)},
                  f.ctx);
      return std::vector<Output>{{"sums", f.values(sums), test::kClosedFormF64}};
    };
    const std::string name = test::shape_name({c.num_slices, c.slice_elements});
    test::expect_like_oracle(name, test::Bits::kOfAnyThreadCount, body);
  }
}

TEST(CpuBlockNorms, LargeValuesDoNotOverflow) {
  DeviceFixture f(Backend::kCpu, 2);
  const TensorView sums = f.zeros(DType::kF64, {1});
  block_norms({.sums = sums,
               .x = f.floats(DType::kF32, {2}, {1e30, 1e25}),
               .blocks = BlockRange::all(2, 2)},
              f.ctx);
  const double large = 1e30F;
  const double small = 1e25F;
  test::expect_close(f.values(sums)[0], large * large + small * small, test::kClosedFormF64, "sum");
}

}  // namespace
}  // namespace ulmus::ops
