#pragma once

#include <string_view>
#include <vector>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"
#include "ulmus/ops/matmul.h"

namespace ulmus::ops {

inline void PrintTo(MatmulForm form, std::ostream* out) {
  *out << (form == MatmulForm::kNT ? "NT" : form == MatmulForm::kNN ? "NN" : "TN");
}

}  // namespace ulmus::ops

namespace ulmus::test {

/// A tensor of the fast kernels (f32) and its twin of the oracle (f64). Windows move together.
struct Twin {
  TensorView fast;
  TensorView exact;

  Twin narrow(int axis, std::int64_t begin, std::int64_t end) const {
    return {fast.narrow(axis, begin, end), exact.narrow(axis, begin, end)};
  }
};

/// Runs an operation on the fast kernels and on the oracle, from the same values.
class OraclePair {
 public:
  explicit OraclePair(int num_threads, std::int64_t capacity_bytes = std::int64_t{4} << 20U)
      : fast(Backend::kCpu, num_threads, capacity_bytes), exact(Backend::kRef, 1, capacity_bytes) {}

  /// Values that both element types can hold.
  Twin floats(const Shape& shape, std::vector<double> values) {
    for (double& value : values)
      value = static_cast<float>(value);
    return {fast.floats(DType::kF32, shape, values), exact.floats(DType::kF64, shape, values)};
  }
  Twin normal(const Shape& shape, std::string_view stream, double scale = 1.0) {
    return floats(shape, DeviceFixture::normals(shape, stream, scale));
  }
  /// An output that must be overwritten.
  Twin stale(const Shape& shape) {
    return {fast.stale(DType::kF32, shape), exact.stale(DType::kF64, shape)};
  }
  Twin i32(const Shape& shape, const std::vector<std::int32_t>& values) {
    return {fast.i32(shape, values), exact.i32(shape, values)};
  }
  Twin f64(const Shape& shape, const std::vector<double>& values) {
    return {fast.f64(shape, values), exact.f64(shape, values)};
  }

  void expect_same(const Twin& twin, const Tolerance& tolerance, std::string_view what) {
    expect_close_to_largest(fast.values(twin.fast), exact.values(twin.exact), tolerance, what);
  }

  DeviceFixture fast;
  DeviceFixture exact;
};

}  // namespace ulmus::test
