#include "ulmus/ops/rms_norm.h"

#include <cmath>
#include <vector>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

void rms_norm_forward(const RmsNormForwardArgs& args, TensorView /*scratch*/,
                      const ExecContext& /*ctx*/) {
  dispatch_float(args.x.dtype(), "rms_norm_forward", [&]<class T>() {
    const std::int64_t width = args.x.dim(1);
    const T* weight = args.weight.data<T>();
    T* saved = args.inv_rms.data<T>();
    for (std::int64_t n = 0; n < args.x.dim(0); ++n) {
      const T* x = row<T>(args.x, n);
      T* y = row<T>(args.y, n);
      const double mean_sq = dot(x, x, width) / static_cast<double>(width);
      const double inv_rms = 1.0 / std::sqrt(mean_sq + args.eps);
      saved[n] = static_cast<T>(inv_rms);
      for (std::int64_t d = 0; d < width; ++d) {
        y[d] = static_cast<T>(static_cast<double>(x[d]) * inv_rms * static_cast<double>(weight[d]));
      }
    }
  });
}

namespace {

/// One row of grad_x; grad_weight gets the row's terms. grad_x may be grad_y: an element of
/// grad_y is read before the same element of grad_x is written.
template <class T>
void backward_row(const RmsNormBackwardArgs& args, std::int64_t n, double* grad_weight) {
  const std::int64_t width = args.x.dim(1);
  const T* x = row<T>(args.x, n);
  const T* grad_y = row<T>(args.grad_y, n);
  const T* weight = args.weight.data<T>();
  T* grad_x = row<T>(args.grad_x, n);
  const auto inv_rms = static_cast<double>(args.inv_rms.data<T>()[n]);
  double mean = 0.0;
  for (std::int64_t d = 0; d < width; ++d) {
    const double xhat = static_cast<double>(x[d]) * inv_rms;
    grad_weight[d] += static_cast<double>(grad_y[d]) * xhat;
    mean += static_cast<double>(grad_y[d]) * static_cast<double>(weight[d]) * xhat;
  }
  mean /= static_cast<double>(width);
  for (std::int64_t d = 0; d < width; ++d) {
    const double xhat = static_cast<double>(x[d]) * inv_rms;
    const double g = static_cast<double>(grad_y[d]) * static_cast<double>(weight[d]);
    double value = inv_rms * (g - xhat * mean);
    if (args.accumulate == Accumulate::kAdd) value += static_cast<double>(grad_x[d]);
    grad_x[d] = static_cast<T>(value);
  }
}

}  // namespace

void rms_norm_backward(const RmsNormBackwardArgs& args, TensorView /*scratch*/,
                       const ExecContext& /*ctx*/) {
  if (args.x.dim(0) == 0) return;
  dispatch_float(args.x.dtype(), "rms_norm_backward", [&]<class T>() {
    std::vector<double> sums(static_cast<std::size_t>(args.x.dim(1)));
    for (std::int64_t n = 0; n < args.x.dim(0); ++n)
      backward_row<T>(args, n, sums.data());
    T* grad_weight = args.grad_weight.data<T>();
    for (std::size_t d = 0; d < sums.size(); ++d) {
      grad_weight[d] = static_cast<T>(static_cast<double>(grad_weight[d]) + sums[d]);
    }
  });
}

}  // namespace ulmus::ops::ref
