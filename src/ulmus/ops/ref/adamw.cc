#include "ulmus/ops/adamw.h"

#include <cmath>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops::ref {

namespace {

double field(const AdamwArgs& args, GateField name) {
  return args.gate.data<double>()[static_cast<std::size_t>(name)];
}

}  // namespace

void adamw(const AdamwArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  if (field(args, GateField::kUpdate) == 0.0) return;
  const double clip = field(args, GateField::kClip);
  const double correction1 = field(args, GateField::kCorrection1);
  const double correction2 = field(args, GateField::kCorrection2);
  const double decay = 1.0 - args.lr * args.weight_decay;
  dispatch_float(args.param.dtype(), "adamw", [&]<class T>() {
    T* param = args.param.data<T>();
    T* first = args.m.data<T>();
    T* second = args.v.data<T>();
    const T* grad = args.grad.data<T>();
    for (std::int64_t i = 0; i < args.param.numel(); ++i) {
      const double g = clip * static_cast<double>(grad[i]);
      const double m = args.beta1 * static_cast<double>(first[i]) + (1.0 - args.beta1) * g;
      const double v = args.beta2 * static_cast<double>(second[i]) + (1.0 - args.beta2) * g * g;
      const double step = args.lr * (m / correction1) / (std::sqrt(v / correction2) + args.eps);
      first[i] = static_cast<T>(m);
      second[i] = static_cast<T>(v);
      param[i] = static_cast<T>(static_cast<double>(param[i]) * decay - step);
    }
  });
}

}  // namespace ulmus::ops::ref
