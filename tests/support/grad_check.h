#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::test {

/// <a, b>
inline double inner(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

/// One f64 input of an operation and the gradient that the backward call gave for it.
struct CheckedInput {
  std::string name;
  TensorView value;
  std::vector<double> grad;
};

/// Compares backward with central differences along random directions v of each input:
///   (f(x + h v) - f(x - h v)) / 2h  against  <v, grad>,  f = <outputs, u>
/// `objective` runs the forward call on the current inputs and returns <outputs, u>, where u is
/// what the backward call got as output gradient. Inputs are restored.
inline void check_gradients(DeviceFixture& fixture, const std::vector<CheckedInput>& inputs,
                            const std::function<double()>& objective) {
  constexpr double kStep = 1e-5;  // f64: rounding 1e-16 / h and truncation h^2 are both near 1e-10
  constexpr int kDirections = 3;
  for (const CheckedInput& input : inputs) {
    const std::vector<double> values = fixture.values(input.value);
    EXPECT_GT(inner(input.grad, input.grad), 0.0) << input.name << ": gradient is zero throughout";
    for (int direction = 0; direction < kDirections; ++direction) {
      const std::vector<double> v = DeviceFixture::normals(
          input.value.shape(), input.name + " direction " + std::to_string(direction));
      const auto shifted = [&](double step) {
        std::vector<double> moved = values;
        for (std::size_t i = 0; i < moved.size(); ++i)
          moved[i] += step * v[i];
        fixture.write(input.value, moved);
        return objective();
      };
      const double difference = (shifted(kStep) - shifted(-kStep)) / (2.0 * kStep);
      fixture.write(input.value, values);
      expect_close(inner(v, input.grad), difference, kGradCheckF64, "gradient of " + input.name);
    }
  }
}

}  // namespace ulmus::test
