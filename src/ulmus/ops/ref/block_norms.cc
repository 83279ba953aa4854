#include "ulmus/ops/block_norms.h"

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

void block_norms(const BlockNormsArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  dispatch_float(args.x.dtype(), "block_norms", [&]<class T>() {
    const T* x = args.x.data<T>();
    auto* sums = args.sums.data<double>();
    const BlockRange& all = args.blocks;
    const std::int64_t first = all.element_begin();
    for (std::int64_t block = all.begin; block < all.end; ++block) {
      const std::int64_t begin = block_begin(block, all.numel, all.slice_elements) - first;
      const std::int64_t end = block_begin(block + 1, all.numel, all.slice_elements) - first;
      sums[block - all.begin] = dot(x + begin, x + begin, end - begin);
    }
  });
}

}  // namespace ulmus::ops::ref
