#include "ulmus/ops/swiglu.h"

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"
#include "ulmus/ops/ref/sigmoid.h"

namespace ulmus::ops::ref {

namespace {

template <class T>
void backward_row(const SwigluBackwardArgs& args, std::int64_t r) {
  const std::int64_t width = args.weighted_h.dim(1);
  const double weight =
      args.row_weight.is_empty() ? 1.0 : static_cast<double>(args.row_weight.data<T>()[r]);
  const T* x = row<T>(args.x, r);
  const T* grad_h = row<T>(args.grad_h, r);
  T* grad_x = row<T>(args.grad_x, r);
  T* weighted_h = row<T>(args.weighted_h, r);
  double row_weight_grad = 0.0;
  for (std::int64_t f = 0; f < width; ++f) {
    // All of a channel is read before anything of it is written: outputs may be the inputs.
    const auto gate = static_cast<double>(x[f]);
    const auto up = static_cast<double>(x[width + f]);
    const auto grad = static_cast<double>(grad_h[f]);
    const double s = sigmoid(gate);
    const double silu = gate * s;
    row_weight_grad += silu * up * grad;
    weighted_h[f] = static_cast<T>(weight * silu * up);
    grad_x[f] = static_cast<T>(weight * grad * up * s * (1.0 + gate * (1.0 - s)));
    grad_x[width + f] = static_cast<T>(weight * grad * silu);
  }
  if (!args.grad_row_weight.is_empty()) {
    args.grad_row_weight.data<T>()[r] = static_cast<T>(row_weight_grad);
  }
}

}  // namespace

void swiglu_forward(const SwigluForwardArgs& args, TensorView /*scratch*/,
                    const ExecContext& /*ctx*/) {
  dispatch_float(args.h.dtype(), "swiglu_forward", [&]<class T>() {
    const std::int64_t width = args.h.dim(1);
    const std::int64_t num_rows = rows_in_use(args.row_count, args.h.dim(0));
    for (std::int64_t r = 0; r < num_rows; ++r) {
      const T* x = row<T>(args.x, r);
      T* h = row<T>(args.h, r);
      for (std::int64_t f = 0; f < width; ++f) {
        const auto gate = static_cast<double>(x[f]);
        h[f] = static_cast<T>(gate * sigmoid(gate) * static_cast<double>(x[width + f]));
      }
    }
  });
}

void swiglu_backward(const SwigluBackwardArgs& args, TensorView /*scratch*/,
                     const ExecContext& /*ctx*/) {
  dispatch_float(args.weighted_h.dtype(), "swiglu_backward", [&]<class T>() {
    const std::int64_t num_rows = rows_in_use(args.row_count, args.weighted_h.dim(0));
    for (std::int64_t r = 0; r < num_rows; ++r)
      backward_row<T>(args, r);
  });
}

}  // namespace ulmus::ops::ref
