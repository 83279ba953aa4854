#pragma once

#include <cstdint>

namespace ulmus::data {

/// Two token ids as one number that sorts by the left one, then by the right one.
constexpr std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) |
         static_cast<std::uint32_t>(right);
}

}  // namespace ulmus::data
