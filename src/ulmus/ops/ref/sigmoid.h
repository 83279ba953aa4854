#pragma once

#include <cmath>

namespace ulmus::ops::ref {

/// 1 / (1 + e^-z)
inline double sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }

}  // namespace ulmus::ops::ref
