#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/tolerance.h"
#include "ulmus/base/error.h"

namespace ulmus::test {

/// Elementwise comparison; the scale of the tolerance is the expected element. Equal infinities and
/// two NaN agree. Reports the first difference.
inline void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                         const Tolerance& tolerance, std::string_view what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected[i]);
    if (std::abs(actual[i] - expected[i]) <= allowed) continue;
    ADD_FAILURE() << what << "[" << i << "] is " << actual[i] << ", expected " << expected[i]
                  << " within " << allowed << " (" << tolerance.reason << ")";
    return;
  }
}

inline void expect_close(double actual, double expected, const Tolerance& tolerance,
                         std::string_view what) {
  expect_close(std::vector<double>{actual}, std::vector<double>{expected}, tolerance, what);
}

/// The same with the largest magnitude of the expected tensor as scale: for sums that cancel.
inline void expect_close_to_largest(const std::vector<double>& actual,
                                    const std::vector<double>& expected, const Tolerance& tolerance,
                                    std::string_view what) {
  double largest = 0.0;
  for (const double value : expected)
    largest = std::max(largest, std::abs(value));
  const Tolerance absolute{0.0, tolerance.absolute + tolerance.relative * largest,
                           tolerance.reason};
  expect_close(actual, expected, absolute, what);
}

/// Runs `call`, which must throw an Error; returns its message.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace ulmus::test
