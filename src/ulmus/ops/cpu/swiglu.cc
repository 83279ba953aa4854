#include "ulmus/ops/swiglu.h"

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

namespace {

[[gnu::always_inline]] inline F32x8 gated(F32x8 gate, F32x8 up) {
  return gate * sigmoid(gate) * up;
}

struct Gradients {
  F32x8 gate;
  F32x8 up;
  F32x8 hidden;             ///< w h
  F32x8 hidden_times_grad;  ///< h grad_h, not weighted
};

/// silu'(z) = sigma(z) (1 + z (1 - sigma(z)))
[[gnu::always_inline]] inline Gradients gradients(F32x8 gate, F32x8 up, F32x8 grad_h,
                                                  float weight) {
  const F32x8 sigma = sigmoid(gate);
  const F32x8 silu = gate * sigma;
  const F32x8 hidden = silu * up;
  const F32x8 weighted_grad = weight * grad_h;
  return {.gate = weighted_grad * up * (sigma * (1.0F + gate * (1.0F - sigma))),
          .up = weighted_grad * silu,
          .hidden = weight * hidden,
          .hidden_times_grad = hidden * grad_h};
}

void forward_row(float* h, const float* x, std::int64_t width) {
  std::int64_t f = 0;
  for (; f + kLanes <= width; f += kLanes)
    store(h + f, gated(load(x + f), load(x + width + f)));
  const std::int64_t left = width - f;
  if (left > 0) {
    store_first(h + f, gated(load_first(x + f, left), load_first(x + width + f, left)), left);
  }
}

/// Returns <h, grad_h>. All operands of a column are read before its results are written.
float backward_row(float* grad_x, float* weighted_h, const float* grad_h, const float* x,
                   float weight, std::int64_t width) {
  F32x8 sum{};
  std::int64_t f = 0;
  for (; f + kLanes <= width; f += kLanes) {
    const Gradients g = gradients(load(x + f), load(x + width + f), load(grad_h + f), weight);
    store(grad_x + f, g.gate);
    store(grad_x + width + f, g.up);
    store(weighted_h + f, g.hidden);
    sum += g.hidden_times_grad;
  }
  const std::int64_t left = width - f;
  if (left > 0) {
    const Gradients g = gradients(load_first(x + f, left), load_first(x + width + f, left),
                                  load_first(grad_h + f, left), weight);
    store_first(grad_x + f, g.gate, left);
    store_first(grad_x + width + f, g.up, left);
    store_first(weighted_h + f, g.hidden, left);
    sum += g.hidden_times_grad;  // the lanes beyond the row are 0
  }
  return horizontal_sum(sum);
}

}  // namespace

void swiglu_forward(const SwigluForwardArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  float* h = args.h.data<float>();
  const float* x = args.x.data<float>();
  const std::int64_t width = args.h.dim(1);
  ctx.device.pool().for_ranges(rows_in_use(args.row_count, args.h.dim(0)), row_grain(width),
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 for (std::int64_t r = begin; r < end; ++r) {
                                   forward_row(h + r * width, x + r * 2 * width, width);
                                 }
                               });
}

void swiglu_backward(const SwigluBackwardArgs& args, TensorView /*scratch*/,
                     const ExecContext& ctx) {
  float* grad_x = args.grad_x.data<float>();
  float* weighted_h = args.weighted_h.data<float>();
  float* grad_row_weight =
      args.grad_row_weight.is_empty() ? nullptr : args.grad_row_weight.data<float>();
  const float* grad_h = args.grad_h.data<float>();
  const float* x = args.x.data<float>();
  const float* row_weight = args.row_weight.is_empty() ? nullptr : args.row_weight.data<float>();
  const std::int64_t width = args.grad_h.dim(1);
  ctx.device.pool().for_ranges(
      rows_in_use(args.row_count, args.grad_h.dim(0)), row_grain(width),
      [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t r = begin; r < end; ++r) {
          const float weight = row_weight != nullptr ? row_weight[r] : 1.0F;
          const float dot = backward_row(grad_x + r * 2 * width, weighted_h + r * width,
                                         grad_h + r * width, x + r * 2 * width, weight, width);
          if (grad_row_weight != nullptr) grad_row_weight[r] = dot;
        }
      });
}

}  // namespace ulmus::ops::cpu
