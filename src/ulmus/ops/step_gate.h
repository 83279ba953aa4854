#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Numbers of the gate, [kNumGateFields] f64 on the device. The optimizer reads them there; the
/// host sees them with the step's one read.
enum class GateField : std::uint8_t {
  kUpdate,          ///< 1: the update is applied; 0: it is skipped
  kReason,          ///< a GateReason
  kClip,            ///< factor on every gradient: min(1, clip / norm), 1 without clipping
  kLoss,            ///< the objective's cross-entropy of this step
  kNorm,            ///< global gradient norm before clipping
  kBadTensor,       ///< index of the first tensor with a non-finite gradient, -1 if none
  kCount,           ///< optimizer updates applied so far, this one included; kept across steps
  kCorrection1,     ///< 1 - beta1^count
  kCorrection2,     ///< 1 - beta2^count
  kNonfiniteInRow,  ///< consecutive steps skipped as non-finite; kept across steps
};
inline constexpr int kNumGateFields = 10;
enum class GateReason : std::uint8_t { kNone, kNonfinite, kSkipLoss, kSkipNorm };

/// Steps that the rolling statistics of skip-step look back on.
inline constexpr std::int64_t kSkipWindow = 128;

/// The square of a larger gradient would leave f32, and with it AdamW's second moment.
inline constexpr double kLargestGateNorm = 1e19;

/// Decides about the update of this step, on the device.
///
///   norm = sqrt(norm_sq)
///   non-finite loss or norm, or a norm after clipping above kLargestGateNorm: no update
///   (kNonfinite); windows and count stay as they are
///   skip-step (skip_sigma > 0, at least kSkipWindow / 2 entries): no update when loss or norm is
///   above mean + skip_sigma * std (population) of its window
///   both values enter the windows whenever they are finite
///
///   gate          [kNumGateFields]       f64 in and out
///   windows       [2 * kSkipWindow + 1]  f64 in and out: losses, norms (ring buffers, slot =
///                                        entries mod kSkipWindow), number of entries so far
///   loss          [1]                    f64 in: cross-entropy of the step
///   norm_sq       [1]                    f64 in: squared gradient norm over all ranks
///   first_bad     [1]                    f64 in: first tensor that is not finite, as norm_total
///                                        gives it
struct StepGateArgs {
  TensorView gate;
  TensorView windows;
  ConstTensorView loss;
  ConstTensorView norm_sq;
  ConstTensorView first_bad;
  double clip = 0.0;        ///< largest norm; 0: no clipping
  double skip_sigma = 0.0;  ///< 0: no skip-step
  double beta1 = 0.9;
  double beta2 = 0.95;
};
void step_gate(const StepGateArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
