#include "ulmus/ops/balance_loss.h"

#include <algorithm>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

namespace {

double sum_of(const std::int64_t* counts, std::int64_t num_experts) {
  std::int64_t sum = 0;
  for (std::int64_t e = 0; e < num_experts; ++e)
    sum += counts[e];
  return static_cast<double>(sum);
}

/// The fraction f that the loss gives expert e, times the tokens that it stands for and divided by
/// those of the step.
double share(const BalanceCoefficientsArgs& args, const std::int64_t* counts, double sum,
             std::int64_t e) {
  const auto experts = static_cast<double>(args.coefficients.dim(1));
  if (args.source == BalanceCounts::kOfPreviousStep && sum == 0.0) {
    return 1.0 / (experts * args.step_tokens);
  }
  return static_cast<double>(counts[e]) / (sum * args.step_tokens);
}

}  // namespace

void balance_coefficients(const BalanceCoefficientsArgs& args, TensorView /*scratch*/,
                          const ExecContext& /*ctx*/) {
  dispatch_float(args.coefficients.dtype(), "balance_coefficients", [&]<class T>() {
    const std::int64_t num_experts = args.coefficients.dim(1);
    for (std::int64_t group = 0; group < args.coefficients.dim(0); ++group) {
      const auto* counts = args.source == BalanceCounts::kOfGroup
                               ? row<std::int64_t>(args.counts, group)
                               : args.previous.data<std::int64_t>();
      const double sum = sum_of(counts, num_experts);  // = K T_b for the group's own counts
      const auto* score_sums = row<double>(args.score_sums, group);
      T* coefficients = row<T>(args.coefficients, group);
      if (args.source == BalanceCounts::kOfGroup && sum == 0.0) {
        std::fill_n(coefficients, num_experts, T{0});
        continue;
      }
      for (std::int64_t e = 0; e < num_experts; ++e) {
        const double unit = static_cast<double>(num_experts) * share(args, counts, sum, e);
        coefficients[e] = static_cast<T>(args.weight * unit);
        *args.loss_sum.data<double>() += unit * score_sums[e];
      }
    }
  });
}

}  // namespace ulmus::ops::ref
