#pragma once

#include <cstdint>

namespace ulmus::parallel {

/// How long gathered weights stay.
enum class Reshard : std::uint8_t {
  kMicroBatch,  ///< gathered before each forward and each backward of a unit, dropped after it
  kStep,        ///< gathered at their first use in a step, dropped when its last gradients are made
};

/// When a unit's weights are asked for.
enum class Prefetch : std::uint8_t {
  kNone,      ///< when the unit is used
  kNextUnit,  ///< when the unit before it is used
};

}  // namespace ulmus::parallel
