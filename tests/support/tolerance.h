#pragma once

#include <string_view>

namespace ulmus::test {

/// How far a value may be from what it is compared with: |a - b| <= absolute + relative * scale,
/// where the test says what `scale` is (|b|, or the largest magnitude of the tensor).
struct Tolerance {
  double relative;
  double absolute;
  std::string_view reason;
};

constexpr Tolerance kExact{0.0, 0.0, "moves bits, computes nothing, or is the same code path"};
constexpr Tolerance kClosedFormF64{1e-12, 1e-14, "f64 on both sides, a few hundred operations"};
constexpr Tolerance kReduceF32{1e-5, 1e-6, "sum of up to 8k f32 terms in another order than ref"};
constexpr Tolerance kElementF32{2e-6, 1e-7, "a dozen f32 operations on one element, own exp"};
constexpr Tolerance kExpF32{1.3e-7, 1.5e-45, "one unit in the last place, one subnormal step"};
constexpr Tolerance kLargeScoresF32{2e-4, 1e-6,
                                    "softmax of f32 scores of some hundreds: they round to 3e-5"};
constexpr Tolerance kAttentionGradF32{1e-5, 5e-6,
                                      "kReduceF32, and <grad_out, v> - delta: tens that cancel"};
constexpr Tolerance kGradCheckF64{1e-6, 1e-9, "central differences in f64, truncation error h^2"};
constexpr Tolerance kMicroBatchF64{1e-9, 0.0, "sums over micro-batches in another order, f64"};
constexpr Tolerance kTrainedF32{2e-4, 0.0,
                                "losses of a dozen f32 steps: sums in another order, grown by "
                                "updates of small gradients, whose size is one learning rate"};
constexpr Tolerance kLossF32{1e-6, 0.0, "mean of thousands of f32 losses, summed in f64"};
constexpr Tolerance kModelF32{1e-5, 0.0, "whole model in f32 against f64, relative to the norm"};

}  // namespace ulmus::test
