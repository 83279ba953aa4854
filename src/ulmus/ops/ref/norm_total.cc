#include "ulmus/ops/norm_total.h"

#include <cmath>
#include <limits>

#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops::ref {

namespace {

/// Index of the first tensor with a sum that is not finite.
double first_bad_tensor(const NormTotalArgs& args) {
  const auto* sums = args.norm_sums.data<double>();
  const auto* begin = args.tensor_begin.data<std::int64_t>();
  const std::int64_t num_tensors = args.tensor_begin.dim(0) - 1;
  for (std::int64_t tensor = 0; tensor < num_tensors; ++tensor) {
    for (std::int64_t block = begin[tensor]; block < begin[tensor + 1]; ++block) {
      if (!std::isfinite(sums[block])) return static_cast<double>(tensor);
    }
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

void norm_total(const NormTotalArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  const auto* sums = args.norm_sums.data<double>();
  double norm_sq = 0.0;
  for (std::int64_t block = 0; block < args.norm_sums.dim(0); ++block)
    norm_sq += sums[block];
  *args.norm_sq.data<double>() = norm_sq;
  *args.first_bad.data<double>() = first_bad_tensor(args);
}

}  // namespace ulmus::ops::ref
