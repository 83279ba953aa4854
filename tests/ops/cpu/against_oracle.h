#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::test {

/// What the difference of an element is measured against.
enum class Scale { kElement, kLargest };

/// One output of an operation, as doubles.
struct Output {
  std::string_view name;
  std::vector<double> values;
  Tolerance tolerance = kExact;
  Scale scale = Scale::kElement;
};

template <class T>
std::vector<double> as_doubles(const std::vector<T>& values) {
  std::vector<double> doubles;
  doubles.reserve(values.size());
  for (const T value : values)
    doubles.push_back(static_cast<double>(value));
  return doubles;
}

/// Elements of a tensor of any type.
inline std::vector<double> values_of(DeviceFixture& fixture, ConstTensorView view) {
  switch (view.dtype()) {
    case DType::kI32:
      return as_doubles(fixture.read<std::int32_t>(view));
    case DType::kI64:
      return as_doubles(fixture.read<std::int64_t>(view));
    case DType::kU8:
      return as_doubles(fixture.read<std::uint8_t>(view));
    default:
      return fixture.values(view);
  }
}

/// What an operation promises about its bits.
enum class Bits {
  kOfThreadCount,    ///< the same for the same number of threads
  kOfAnyThreadCount  ///< the same for all numbers of threads
};

/// Runs `body(fixture)` on the oracle and on the fast kernels with 1, 2, 3 and again 3 threads; its
/// outputs must agree with the oracle's within tolerances, and with each other as `bits` says.
template <class Body>
void expect_like_oracle(const std::string& what, Bits bits, const Body& body) {
  DeviceFixture oracle;
  const std::vector<Output> expected = body(oracle);
  std::vector<std::vector<Output>> runs;
  for (const int num_threads : {1, 2, 3, 3}) {
    DeviceFixture fixture(Backend::kCpu, num_threads);
    const std::vector<Output>& actual = runs.emplace_back(body(fixture));
    const std::vector<Output>* twin = nullptr;
    if (bits == Bits::kOfAnyThreadCount) twin = &runs.front();
    if (bits == Bits::kOfThreadCount && runs.size() == 4) twin = &runs[2];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Output& wanted = expected[i];
      const std::string name =
          what + ", " + std::to_string(num_threads) + " threads, " + std::string(wanted.name);
      if (wanted.scale == Scale::kElement) {
        expect_close(actual.at(i).values, wanted.values, wanted.tolerance, name);
      } else {
        expect_close_to_largest(actual.at(i).values, wanted.values, wanted.tolerance, name);
      }
      if (twin != nullptr) {
        EXPECT_EQ(actual[i].values, (*twin)[i].values) << name;
      }
    }
  }
}

inline std::string shape_name(std::initializer_list<std::int64_t> dims) {
  std::string name = "[";
  for (const std::int64_t dim : dims)
    name += (name.size() > 1 ? ", " : "") + std::to_string(dim);
  return name + "]";
}

}  // namespace ulmus::test
