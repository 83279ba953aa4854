#pragma once

#include <cstdint>

namespace ulmus::ops::cpu {

/// Elements below which waking another thread costs more than it saves (a few microseconds).
inline constexpr std::int64_t kMinElements = 8192;

/// Least rows of `width` elements for one thread.
inline std::int64_t row_grain(std::int64_t width) {
  const std::int64_t rows = kMinElements / (width > 0 ? width : 1);
  return rows > 0 ? rows : 1;
}

}  // namespace ulmus::ops::cpu
