#include "ulmus/ops/block_norms.h"

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

namespace {

/// Sixteen partial sums in f64, element i in sum i mod 16; the product of two floats is exact.
double sum_of_squares(const float* x, std::int64_t count) {
  F64x4 sums[4] = {};
  const auto add = [&](std::ptrdiff_t pair, F32x8 values) {
    const F64x4 low = widen(low_half(values));
    const F64x4 high = widen(high_half(values));
    sums[2 * pair] += low * low;
    sums[2 * pair + 1] += high * high;
  };
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    add(0, load(x + i));
    add(1, load(x + i + kLanes));
  }
  if (i + kLanes <= count) {
    add(0, load(x + i));
    i += kLanes;
    if (i < count) add(1, load_first(x + i, count - i));
  } else if (i < count) {
    add(0, load_first(x + i, count - i));
  }
  return horizontal_sum((sums[0] + sums[2]) + (sums[1] + sums[3]));
}

}  // namespace

void block_norms(const BlockNormsArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  constexpr std::int64_t kBlockGrain = 4;
  double* sums = args.sums.data<double>();
  const float* x = args.x.data<float>();
  const BlockRange all = args.blocks;
  const std::int64_t first = all.element_begin();
  const auto begin_of = [=](std::int64_t block) {
    return block_begin(all.begin + block, all.numel, all.slice_elements) - first;
  };
  ctx.device.pool().for_ranges(all.num_blocks(), kBlockGrain,
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 for (std::int64_t block = begin; block < end; ++block) {
                                   const std::int64_t at = begin_of(block);
                                   sums[block] = sum_of_squares(x + at, begin_of(block + 1) - at);
                                 }
                               });
}

}  // namespace ulmus::ops::cpu
