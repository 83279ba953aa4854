#include "ulmus/ops/step_gate.h"

#include <algorithm>
#include <cmath>

#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops::ref {

namespace {

double& field(double* gate, GateField name) { return gate[static_cast<std::size_t>(name)]; }

/// The index that norm_total found, -1 for none.
double bad_tensor(const StepGateArgs& args) {
  const double first = *args.first_bad.data<double>();
  return std::isfinite(first) ? first : -1.0;
}

/// A value far above its window: more than sigmas standard deviations over the mean.
bool is_outlier(double value, const double* window, std::int64_t entries, double sigmas) {
  const auto count = static_cast<double>(entries);
  double mean = 0.0;
  for (std::int64_t i = 0; i < entries; ++i)
    mean += window[i] / count;
  double variance = 0.0;
  for (std::int64_t i = 0; i < entries; ++i) {
    variance += (window[i] - mean) * (window[i] - mean) / count;
  }
  return value > mean + sigmas * std::sqrt(variance);
}

/// Why a finite step is skipped; its values enter the windows either way.
GateReason judge(double loss, double norm, const StepGateArgs& args) {
  auto* losses = args.windows.data<double>();
  double* norms = losses + kSkipWindow;
  double& entries_so_far = losses[2 * kSkipWindow];
  const auto total = static_cast<std::int64_t>(entries_so_far);
  const std::int64_t entries = std::min(total, kSkipWindow);
  GateReason reason = GateReason::kNone;
  if (args.skip_sigma > 0.0 && entries >= kSkipWindow / 2) {
    if (is_outlier(loss, losses, entries, args.skip_sigma)) {
      reason = GateReason::kSkipLoss;
    } else if (is_outlier(norm, norms, entries, args.skip_sigma)) {
      reason = GateReason::kSkipNorm;
    }
  }
  losses[total % kSkipWindow] = loss;
  norms[total % kSkipWindow] = norm;
  entries_so_far += 1.0;
  return reason;
}

}  // namespace

void step_gate(const StepGateArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  auto* gate = args.gate.data<double>();
  const double loss = *args.loss.data<double>();
  const double norm = std::sqrt(*args.norm_sq.data<double>());
  const double used_norm = args.clip > 0.0 ? std::min(norm, args.clip) : norm;
  const bool is_finite =
      std::isfinite(loss) && std::isfinite(norm) && used_norm <= kLargestGateNorm;
  const GateReason reason = is_finite ? judge(loss, norm, args) : GateReason::kNonfinite;
  const bool updates = reason == GateReason::kNone;
  const bool clips = args.clip > 0.0 && is_finite && norm > args.clip;

  field(gate, GateField::kUpdate) = updates ? 1.0 : 0.0;
  field(gate, GateField::kReason) = static_cast<double>(reason);
  field(gate, GateField::kClip) = clips ? args.clip / norm : 1.0;
  field(gate, GateField::kLoss) = loss;
  field(gate, GateField::kNorm) = norm;
  field(gate, GateField::kBadTensor) = is_finite ? -1.0 : bad_tensor(args);
  double& count = field(gate, GateField::kCount);
  if (updates) count += 1.0;
  field(gate, GateField::kCorrection1) = 1.0 - std::pow(args.beta1, count);
  field(gate, GateField::kCorrection2) = 1.0 - std::pow(args.beta2, count);
  double& in_row = field(gate, GateField::kNonfiniteInRow);
  in_row = is_finite ? 0.0 : in_row + 1.0;
}

}  // namespace ulmus::ops::ref
