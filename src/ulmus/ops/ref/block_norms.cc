#include "ulmus/ops/block_norms.h"

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

void block_norms(const BlockNormsArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  dispatch_float(args.x.dtype(), "block_norms", [&]<class T>() {
    const T* x = args.x.data<T>();
    auto* sums = args.sums.data<double>();
    const std::int64_t numel = args.x.numel();
    for (std::int64_t block = 0; block < args.sums.dim(0); ++block) {
      const std::int64_t begin = block_begin(block, numel, args.slice_elements);
      const std::int64_t end = block_begin(block + 1, numel, args.slice_elements);
      sums[block] = dot(x + begin, x + begin, end - begin);
    }
  });
}

}  // namespace ulmus::ops::ref
