#include "ulmus/ops/head_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

namespace {

/// HeadGradients in double, in the layout of x and weight; empty in evaluation.
struct HeadGradients {
  std::vector<double> x;
  std::vector<double> weight;
};

/// dz of one row goes to both gradients.
template <class T>
void add_row_gradients(HeadGradients& grads, const HeadLossArgs& args, std::int64_t n,
                       const std::vector<double>& grad_logits) {
  const std::int64_t width = args.x.dim(1);
  const T* x = row<T>(args.x, n);
  double* grad_x = grads.x.data() + n * width;
  for (std::int64_t v = 0; v < args.weight.dim(0); ++v) {
    const double dz = grad_logits[static_cast<std::size_t>(v)];
    const T* weight = row<T>(args.weight, v);
    double* grad_weight = grads.weight.data() + v * width;
    for (std::int64_t d = 0; d < width; ++d) {
      grad_x[d] += dz * static_cast<double>(weight[d]);
      grad_weight[d] += dz * static_cast<double>(x[d]);
    }
  }
}

template <class T>
void loss_row(double* loss_sums, HeadGradients& grads, const HeadLossArgs& args, std::int64_t n) {
  const std::int32_t target = args.targets.data<std::int32_t>()[n];
  ULMUS_DCHECK(-1 <= target && target < args.weight.dim(0), "target ", target, " of ",
               args.weight.dim(0));
  if (target < 0) return;
  std::vector<double> values(static_cast<std::size_t>(args.weight.dim(0)));
  for (std::int64_t v = 0; v < args.weight.dim(0); ++v) {
    values[static_cast<std::size_t>(v)] =
        dot(row<T>(args.x, n), row<T>(args.weight, v), args.x.dim(1));
  }
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0.0;
  for (const double z : values)
    sum += std::exp(z - largest);
  const double lse = largest + std::log(sum);
  loss_sums[0] += args.scale * (lse - values[static_cast<std::size_t>(target)]);
  loss_sums[1] += args.scale * lse * lse;
  if (args.grad_x.is_empty()) return;
  for (double& z : values) {
    z = args.scale * (1.0 + 2.0 * args.z_coefficient * lse) * std::exp(z - lse);
  }
  values[static_cast<std::size_t>(target)] -= args.scale;
  add_row_gradients<T>(grads, args, n, values);
}

}  // namespace

void head_loss(const HeadLossArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  if (args.x.dim(0) == 0) return;
  dispatch_float(args.x.dtype(), "head_loss", [&]<class T>() {
    HeadGradients grads{std::vector<double>(static_cast<std::size_t>(args.grad_x.numel())),
                        std::vector<double>(static_cast<std::size_t>(args.grad_weight.numel()))};
    auto* loss_sums = args.loss_sums.data<double>();
    for (std::int64_t n = 0; n < args.x.dim(0); ++n)
      loss_row<T>(loss_sums, grads, args, n);
    if (args.grad_x.is_empty()) return;
    T* grad_x = args.grad_x.data<T>();
    for (std::size_t i = 0; i < grads.x.size(); ++i)
      grad_x[i] = static_cast<T>(grads.x[i]);
    T* grad_weight = args.grad_weight.data<T>();
    for (std::size_t i = 0; i < grads.weight.size(); ++i) {
      grad_weight[i] = static_cast<T>(static_cast<double>(grad_weight[i]) + grads.weight[i]);
    }
  });
}

}  // namespace ulmus::ops::ref
