#pragma once

#include <string_view>

#include "ulmus/base/check.h"
#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// A kernel sees checked arguments and scratch of the size that the front door priced (u8, empty
/// when none). It enqueues; it neither synchronises nor prints, and allocates only in the oracle,
/// whose loops are for tests and checks (precision.compute = "fp64"), not for speed.
template <class Args>
using Kernel = void (*)(const Args& args, TensorView scratch, const ExecContext& ctx);

/// One operation's kernels.
template <class Args>
struct KernelSlot {
  std::string_view name;
  Kernel<Args> ref = nullptr;
  Kernel<Args> cpu = nullptr;

  Kernel<Args> kernel_for(Backend backend) const {
    const Kernel<Args> kernel = backend == Backend::kCpu ? cpu : ref;
    ULMUS_CHECK(kernel != nullptr, name, " has no kernel for back end ", name_of(backend));
    return kernel;
  }
};

}  // namespace ulmus::ops
