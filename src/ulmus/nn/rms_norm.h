#pragma once

#include <string>

#include "ulmus/device/exec_context.h"
#include "ulmus/nn/parameter.h"
#include "ulmus/ops/elementwise.h"

namespace ulmus::nn {

/// RMS normalisation of rows of `width` channels (ops/rms_norm.h). It has no weight GEMM: backward
/// finishes in backward_input.
class RmsNorm {
 public:
  struct Config {
    std::int64_t width = 0;
    double eps = 1e-6;
  };
  struct Params {
    Weight weight;  ///< [width]
  };
  struct Saved {
    ConstTensorView x;   ///< [rows, width]: set by forward, kept by the caller
    TensorView inv_rms;  ///< [max rows]
  };

  RmsNorm() = default;
  RmsNorm(const Config& config, ParameterSet& parameters, const std::string& name);

  /// Memory for up to `max_rows` rows.
  static Saved allocate(Arena& arena, const std::string& name, std::int64_t max_rows, DType dtype);

  /// y [rows, width] overwritten; may be x only if no backward follows.
  void forward(TensorView y, ConstTensorView x, Saved& saved, const ExecContext& ctx) const;
  /// grad_x overwritten or added to; grad_weight added to.
  void backward_input(TensorView grad_x, ConstTensorView grad_y, const Saved& saved,
                      ops::Accumulate accumulate, const ExecContext& ctx) const;

 private:
  Config config_;
  Params params_;
};

}  // namespace ulmus::nn
