#include "ulmus/ops/kernels.h"

namespace ulmus::ops {

const KernelTable& kernels() {
  static const KernelTable kTable = [] {
    KernelTable filled;
    register_ref_kernels(filled);
    register_cpu_kernels(filled);
    return filled;
  }();
  return kTable;
}

}  // namespace ulmus::ops
