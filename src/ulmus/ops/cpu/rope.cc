#include "ulmus/ops/rope.h"

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

namespace {

/// Rotates the pairs of one head; `direction` is 1 or -1.
void rotate_head(float* y, const float* x, const float* angles, std::int64_t half,
                 float direction) {
  const float* cosines = angles;
  const float* sines = angles + half;
  std::int64_t p = 0;
  for (; p + kLanes <= half; p += kLanes) {
    const F32x8 c = load(cosines + p);
    const F32x8 s = direction * load(sines + p);
    const F32x8 first = load(x + p);
    const F32x8 second = load(x + p + half);
    store(y + p, first * c - second * s);
    store(y + p + half, second * c + first * s);
  }
  const std::int64_t left = half - p;
  if (left == 0) return;
  const F32x8 c = load_first(cosines + p, left);
  const F32x8 s = direction * load_first(sines + p, left);
  const F32x8 first = load_first(x + p, left);
  const F32x8 second = load_first(x + p + half, left);
  store_first(y + p, first * c - second * s, left);
  store_first(y + p + half, second * c + first * s, left);
}

}  // namespace

void rope(const RopeArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  float* y = args.y.data<float>();
  const float* x = args.x.data<float>();
  const float* table = args.table.data<float>();
  const std::int32_t* positions = args.positions.data<std::int32_t>();
  const std::int64_t num_heads = args.x.dim(1);
  const std::int64_t head_width = args.x.dim(2);
  const float direction = args.direction == RopeDirection::kForward ? 1.0F : -1.0F;
  ctx.device.pool().for_ranges(
      args.x.dim(0), row_grain(num_heads * head_width),
      [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t n = begin; n < end; ++n) {
          const float* angles = table + positions[n] * head_width;
          for (std::int64_t h = n * num_heads; h < (n + 1) * num_heads; ++h) {
            rotate_head(y + h * head_width, x + h * head_width, angles, head_width / 2, direction);
          }
        }
      });
}

}  // namespace ulmus::ops::cpu
