#include "ulmus/ops/initialize.h"

#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops::ref {

void initialize_truncated_normal(const InitializeArgs& args, TensorView /*scratch*/,
                                 const ExecContext& ctx) {
  constexpr std::int64_t kGrain = 4096;
  dispatch_float(args.x.dtype(), "initialize_truncated_normal", [&]<class T>() {
    T* x = args.x.data<T>();
    ctx.device.pool().for_ranges(
        args.x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
          for (std::int64_t i = begin; i < end; ++i) {
            const auto element = static_cast<std::uint64_t>(args.first_element + i);
            x[i] =
                static_cast<T>(args.std * philox_truncated_normal(args.key, element, args.bound));
          }
        });
  });
}

}  // namespace ulmus::ops::ref
