#include "ulmus/ops/adamw.h"

#include <cmath>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops::cpu {

namespace {

/// What is the same for all elements, formed in f64 and rounded once.
struct Coefficients {
  float clip;
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float step_size;  ///< lr / correction1
  float inverse_correction2;
  float eps;
  float decay;  ///< lr weight_decay
};

double field(const double* gate, GateField which) { return gate[static_cast<int>(which)]; }

Coefficients coefficients(const AdamwArgs& args, const double* gate) {
  return {.clip = static_cast<float>(field(gate, GateField::kClip)),
          .beta1 = static_cast<float>(args.beta1),
          .beta2 = static_cast<float>(args.beta2),
          .one_minus_beta1 = static_cast<float>(1.0 - args.beta1),
          .one_minus_beta2 = static_cast<float>(1.0 - args.beta2),
          .step_size = static_cast<float>(args.lr / field(gate, GateField::kCorrection1)),
          .inverse_correction2 = static_cast<float>(1.0 / field(gate, GateField::kCorrection2)),
          .eps = static_cast<float>(args.eps),
          .decay = static_cast<float>(args.lr * args.weight_decay)};
}

/// The decay is part of the step, not a factor 1 - lr weight_decay, which would round most of it
/// away. Additions, products, quotients and roots round as IEEE 754 says, one by one, in vectors
/// and in the tail alike: bits do not depend on where a range was cut.
void update(float* __restrict param, float* __restrict m, float* __restrict v,
            const float* __restrict grad, std::int64_t n, const Coefficients c) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = c.clip * grad[i];
    m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
    v[i] = c.beta2 * v[i] + c.one_minus_beta2 * (g * g);
    const float root = std::sqrt(v[i] * c.inverse_correction2) + c.eps;
    param[i] -= c.decay * param[i] + c.step_size * m[i] / root;
  }
}

}  // namespace

void adamw(const AdamwArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  const double* gate = args.gate.data<double>();
  if (field(gate, GateField::kUpdate) == 0.0) return;
  const Coefficients c = coefficients(args, gate);
  float* param = args.param.data<float>();
  float* m = args.m.data<float>();
  float* v = args.v.data<float>();
  const float* grad = args.grad.data<float>();
  ctx.device.pool().for_ranges(
      args.param.numel(), kMinElements, [=](std::int64_t begin, std::int64_t end, int) {
        update(param + begin, m + begin, v + begin, grad + begin, end - begin, c);
      });
}

}  // namespace ulmus::ops::cpu
