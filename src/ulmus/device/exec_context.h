#pragma once

#include "ulmus/device/arena.h"
#include "ulmus/device/device.h"
#include "ulmus/device/meter.h"

namespace ulmus {

/// What an operation runs with. Nothing else hides in it. The members outlive the context.
struct ExecContext {
  Device& device;
  Workspace& workspace;
  Meter& meter;

  Backend backend() const { return device.backend(); }
  bool is_meta() const { return device.backend() == Backend::kMeta; }
};

}  // namespace ulmus
