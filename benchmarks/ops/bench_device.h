#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/device_fixture.h"
#include "ulmus/ops/matmul.h"

namespace ulmus::bench {

/// Threads of every benchmark: those of the machine.
inline int num_threads() { return available_threads(); }

/// A device of the fast kernels; the oracle computes on the same tensors, so that a benchmark can
/// check what it is about to time.
class BenchDevice {
 public:
  explicit BenchDevice(std::int64_t capacity_bytes = std::int64_t{512} << 20U)
      : fast(Backend::kCpu, num_threads(), capacity_bytes),
        oracle_(Backend::kRef, 1, std::int64_t{64} << 20U) {}

  ExecContext& ctx() { return fast.ctx; }
  ExecContext& oracle() { return oracle_.ctx; }
  /// Uniform numbers in [-scale, scale), quickly made.
  TensorView random(const Shape& shape, double scale = 1.0) {
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    for (double& value : values) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      value = scale * (static_cast<double>(state_ >> 40U) / 8388608.0 - 1.0);
    }
    return fast.floats(DType::kF32, shape, values);
  }
  TensorView zeros(const Shape& shape) { return fast.zeros(DType::kF32, shape); }

  /// Largest difference relative to the largest expected magnitude.
  double difference(const TensorView& actual, const TensorView& expected) {
    const std::vector<double> a = fast.values(actual);
    const std::vector<double> e = fast.values(expected);
    double largest = 0.0;
    double apart = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(e[i]));
      apart = std::max(apart, std::abs(a[i] - e[i]));
      if (std::isnan(a[i])) return a[i];
    }
    return apart / largest;
  }

  test::DeviceFixture fast;

 private:
  test::DeviceFixture oracle_;
  std::uint64_t state_ = 1;
};

/// FLOP/s of the largest product that any kernel here could hope for: 2048 x 2048 x 2048 on all
/// threads; the best of three.
inline double ceiling(BenchDevice& device, const TensorView& out, const TensorView& x) {
  double best_s = 1e9;
  for (int run = 0; run < 3; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    ops::matmul({.out = out, .a = x, .b = x}, device.ctx());
    const std::chrono::duration<double> s = std::chrono::steady_clock::now() - begin;
    best_s = std::min(best_s, s.count());
  }
  return 2.0 * 2048.0 * 2048.0 * 2048.0 / best_s;
}

/// Checks once, then times `body` between two readings of the ceiling. `difference` is what the
/// check found; more than a few roundings and nothing is timed.
template <class Body>
void time_flops(benchmark::State& state, BenchDevice& device, double useful_flops,
                double difference, const Body& body) {
  constexpr double kAllowedDifference = 1e-4;
  if (!(difference <= kAllowedDifference)) {
    state.SkipWithError(("differs from the oracle by " + std::to_string(difference)).c_str());
    return;
  }
  const TensorView out = device.zeros({2048, 2048});
  const TensorView x = device.random({2048, 2048});
  const double before = ceiling(device, out, x);
  double best_s = 1e9;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> s = std::chrono::steady_clock::now() - begin;
    best_s = std::min(best_s, s.count());
    state.SetIterationTime(s.count());
  }
  const double best_ceiling = std::max(before, ceiling(device, out, x));
  state.counters["best_GFLOPS"] = useful_flops / best_s * 1e-9;
  state.counters["ceiling_GFLOPS"] = best_ceiling * 1e-9;
  state.counters["of_ceiling"] = useful_flops / best_s / best_ceiling;
}

}  // namespace ulmus::bench
