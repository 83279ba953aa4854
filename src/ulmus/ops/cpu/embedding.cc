#include "ulmus/ops/embedding.h"

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"

namespace ulmus::ops::cpu {

void embedding_forward(const EmbeddingForwardArgs& args, TensorView /*scratch*/,
                       const ExecContext& ctx) {
  float* y = args.y.data<float>();
  const float* weight = args.weight.data<float>();
  const std::int32_t* ids = args.ids.data<std::int32_t>();
  const std::int64_t width = args.y.dim(1);
  const auto scale = static_cast<float>(args.scale);
  ctx.device.pool().for_ranges(args.y.dim(0), row_grain(width),
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 for (std::int64_t n = begin; n < end; ++n) {
                                   float* to = y + n * width;
                                   const float* from = weight + ids[n] * width;
                                   for (std::int64_t d = 0; d < width; ++d)
                                     to[d] = scale * from[d];
                                 }
                               });
}

/// Threads own columns and walk over all tokens, so that the order of a sum, and with it its bits,
/// does not depend on their number.
void embedding_backward(const EmbeddingBackwardArgs& args, TensorView /*scratch*/,
                        const ExecContext& ctx) {
  constexpr std::int64_t kColumnGrain = 16;  // a cache line: no line has two writers
  float* grad_weight = args.grad_weight.data<float>();
  const float* grad_y = args.grad_y.data<float>();
  const std::int32_t* ids = args.ids.data<std::int32_t>();
  const std::int64_t num_tokens = args.grad_y.dim(0);
  const std::int64_t width = args.grad_y.dim(1);
  const auto scale = static_cast<float>(args.scale);
  ctx.device.pool().for_ranges(num_tokens > 0 ? width : 0, kColumnGrain,
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 for (std::int64_t n = 0; n < num_tokens; ++n) {
                                   float* to = grad_weight + ids[n] * width;
                                   const float* from = grad_y + n * width;
                                   for (std::int64_t d = begin; d < end; ++d)
                                     to[d] += scale * from[d];
                                 }
                               });
}

}  // namespace ulmus::ops::cpu
