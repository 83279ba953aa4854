#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ulmus/tensor/dtype.h"

namespace ulmus::checkpoint {

/// Index of the first NaN or Inf among elements of `dtype` (f32, f64) at any alignment; -1 when
/// all are finite.
std::int64_t first_nonfinite(std::span<const std::byte> bytes, DType dtype);

}  // namespace ulmus::checkpoint
