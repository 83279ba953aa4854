#include "ulmus/ops/initialize.h"

#include "ulmus/ops/cpu/cpu_kernels.h"

namespace ulmus::ops::cpu {

void initialize_truncated_normal(const InitializeArgs& args, TensorView /*scratch*/,
                                 const ExecContext& ctx) {
  constexpr std::int64_t kDrawGrain = 256;  // a draw costs some fifty nanoseconds
  float* x = args.x.data<float>();
  const PhiloxKey key = args.key;
  const double std = args.std;
  const double bound = args.bound;
  const std::int64_t first = args.first_element;
  ctx.device.pool().for_ranges(
      args.x.numel(), kDrawGrain, [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto index = static_cast<std::uint64_t>(first + i);
          x[i] = static_cast<float>(std * philox_truncated_normal(key, index, bound));
        }
      });
}

}  // namespace ulmus::ops::cpu
