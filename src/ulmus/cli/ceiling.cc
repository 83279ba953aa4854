#include "ulmus/cli/ceiling.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "ulmus/base/philox.h"
#include "ulmus/ops/matmul.h"

namespace ulmus::cli {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t largest(std::int64_t (*elements)(const GemmShape&)) {
  std::int64_t result = 0;
  for (const GemmShape& shape : kCeilingShapes) {
    result = std::max(result, elements(shape));
  }
  return result;
}

std::vector<float> normal_values(std::string_view name, std::int64_t count) {
  const PhiloxKey key = philox_key(0, RandomPurpose::kTest, name);
  std::vector<float> values(static_cast<std::size_t>(count));
  // One period of draws, repeated: the values only have to be unlike each other.
  constexpr std::size_t kPeriod = 65521;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i < kPeriod ? static_cast<float>(philox_truncated_normal(key, i, 3.0))
                            : values[i - kPeriod];
  }
  return values;
}

TensorView part(TensorView buffer, std::int64_t rows, std::int64_t columns) {
  return buffer.rows(0, rows * columns).reshape({rows, columns});
}

std::int64_t workspace_bytes(int num_threads) {
  const std::unique_ptr<Device> meta = make_meta_device(num_threads);
  Workspace workspace(*meta, Arena::kUnbounded);
  Meter meter;
  Arena arena(*meta, MemoryClass::kWorkspace, Arena::kUnbounded);
  for (const GemmShape& shape : kCeilingShapes) {
    ops::matmul({.out = arena.allocate("out", DType::kF32, {shape.m, shape.n}),
                 .a = arena.allocate("a", DType::kF32, {shape.m, shape.k}),
                 .b = arena.allocate("b", DType::kF32, {shape.n, shape.k})},
                {*meta, workspace, meter});
  }
  return workspace.peak_bytes();
}

}  // namespace

double best_of(const CeilingSample& sample) {
  return *std::max_element(sample.begin(), sample.end());
}

CeilingMeter::CeilingMeter(Device& device) : device_(device) {
  const std::int64_t a_size = largest([](const GemmShape& s) { return s.m * s.k; });
  const std::int64_t b_size = largest([](const GemmShape& s) { return s.n * s.k; });
  const std::int64_t out_size = largest([](const GemmShape& s) { return s.m * s.n; });
  workspace_ = std::make_unique<Workspace>(device, workspace_bytes(device.scratch_threads()));
  arena_ =
      std::make_unique<Arena>(device, MemoryClass::kWorkspace,
                              (a_size + b_size + out_size) * size_of(DType::kF32) + 3 * kAlignment);
  a_ = arena_->allocate("ceiling.a", DType::kF32, {a_size});
  b_ = arena_->allocate("ceiling.b", DType::kF32, {b_size});
  out_ = arena_->allocate("ceiling.out", DType::kF32, {out_size});
  const std::vector<float> a = normal_values("ceiling.a", a_size);
  const std::vector<float> b = normal_values("ceiling.b", b_size);
  device_.copy_to_device<float>(a_, a);
  device_.copy_to_device<float>(b_, b);
  sample();
  check_product(a, b);
}

CeilingSample CeilingMeter::sample() {
  using Clock = std::chrono::steady_clock;
  CeilingSample gflops{};
  for (std::size_t i = 0; i < kCeilingShapes.size(); ++i) {
    const Clock::time_point begin = Clock::now();
    multiply(kCeilingShapes[i]);
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    gflops[i] = kCeilingShapes[i].flops() / elapsed.count() * 1e-9;
  }
  return gflops;
}

void CeilingMeter::multiply(const GemmShape& shape) {
  ops::matmul({.out = part(out_, shape.m, shape.n),
               .a = part(a_, shape.m, shape.k),
               .b = part(b_, shape.n, shape.k)},
              {device_, *workspace_, meter_});
}

void CeilingMeter::check_product(const std::vector<float>& a, const std::vector<float>& b) {
  const GemmShape& shape = kCeilingShapes[0];
  multiply(shape);
  std::vector<float> row(static_cast<std::size_t>(shape.n));
  device_.copy_to_host<float>(row, part(out_, shape.m, shape.n).rows(0, 1).reshape({shape.n}));
  for (std::int64_t n = 0; n < shape.n; ++n) {
    double sum = 0.0;
    double magnitude = 0.0;
    for (std::int64_t k = 0; k < shape.k; ++k) {
      const double term = double{a[static_cast<std::size_t>(k)]} *
                          double{b[static_cast<std::size_t>(n * shape.k + k)]};
      sum += term;
      magnitude += std::abs(term);
    }
    // f32 sums of k terms, in any order, are off by much less than k roundings of the largest.
    const double error = std::abs(double{row[static_cast<std::size_t>(n)]} - sum);
    ULMUS_CHECK(error <= 1e-5 * magnitude, "column ", n, " of the timed product is off by ", error);
  }
}

}  // namespace ulmus::cli
