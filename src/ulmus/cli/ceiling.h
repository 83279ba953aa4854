#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ulmus/device/arena.h"
#include "ulmus/device/device.h"
#include "ulmus/device/meter.h"

namespace ulmus::cli {

/// A product out[m, n] = sum_k a[m, k] b[n, k], as a linear layer's forward does it.
struct GemmShape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// The fixed large shapes of the ceiling: square, wide, tall, deep and long.
inline constexpr std::array<GemmShape, 5> kCeilingShapes = {{{1024, 1024, 1024},
                                                             {2048, 2048, 2048},
                                                             {1024, 4096, 1024},
                                                             {4096, 1024, 1024},
                                                             {1024, 1024, 4096}}};

/// GFLOP/s of each shape.
using CeilingSample = std::array<double, kCeilingShapes.size()>;
/// Its largest: the ceiling at the time of the sample.
double best_of(const CeilingSample& sample);

/// Measures a device's dense GEMM peak, all threads, f32, through the front door that training
/// uses. Operands are taken and filled once, so that a sample is quick enough (a few tenths of a
/// second) to stand around every repetition of a measurement that is compared with it.
class CeilingMeter {
 public:
  /// Fills the operands with normal values, warms up, and compares one product with a plain sum:
  /// Error when they differ, since a wrong product must not be timed.
  explicit CeilingMeter(Device& device);

  CeilingSample sample();

 private:
  void multiply(const GemmShape& shape);
  void check_product(const std::vector<float>& a, const std::vector<float>& b);

  Device& device_;
  Meter meter_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Arena> arena_;
  TensorView a_;
  TensorView b_;
  TensorView out_;
};

}  // namespace ulmus::cli
