#pragma once

#include "ulmus/ops/kernels.h"

namespace ulmus::ops::cpu {

// Declarations of the fast kernels, named like their slots.

}  // namespace ulmus::ops::cpu
