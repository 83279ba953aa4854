#include "ulmus/ops/embedding.h"

#include <vector>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

void embedding_forward(const EmbeddingForwardArgs& args, TensorView /*scratch*/,
                       const ExecContext& /*ctx*/) {
  dispatch_float(args.y.dtype(), "embedding_forward", [&]<class T>() {
    const auto* ids = args.ids.data<std::int32_t>();
    for (std::int64_t n = 0; n < args.y.dim(0); ++n) {
      ULMUS_DCHECK(0 <= ids[n] && ids[n] < args.weight.dim(0), "id ", ids[n], " of ",
                   args.weight.dim(0));
      const T* weight = row<T>(args.weight, ids[n]);
      T* y = row<T>(args.y, n);
      for (std::int64_t d = 0; d < args.y.dim(1); ++d) {
        y[d] = static_cast<T>(args.scale * static_cast<double>(weight[d]));
      }
    }
  });
}

void embedding_backward(const EmbeddingBackwardArgs& args, TensorView /*scratch*/,
                        const ExecContext& /*ctx*/) {
  if (args.grad_y.dim(0) == 0) return;
  dispatch_float(args.grad_weight.dtype(), "embedding_backward", [&]<class T>() {
    const auto* ids = args.ids.data<std::int32_t>();
    const std::int64_t width = args.grad_weight.dim(1);
    std::vector<double> sums(static_cast<std::size_t>(args.grad_weight.numel()));
    for (std::int64_t n = 0; n < args.grad_y.dim(0); ++n) {
      ULMUS_DCHECK(0 <= ids[n] && ids[n] < args.grad_weight.dim(0), "id ", ids[n], " of ",
                   args.grad_weight.dim(0));
      const T* grad_y = row<T>(args.grad_y, n);
      double* sum = sums.data() + ids[n] * width;
      for (std::int64_t d = 0; d < width; ++d)
        sum[d] += static_cast<double>(grad_y[d]);
    }
    T* grad_weight = args.grad_weight.data<T>();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      grad_weight[i] = static_cast<T>(static_cast<double>(grad_weight[i]) + args.scale * sums[i]);
    }
  });
}

}  // namespace ulmus::ops::ref
