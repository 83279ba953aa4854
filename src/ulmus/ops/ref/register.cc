#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops {

void register_ref_kernels(KernelTable& table) {
  // table.dense.rms_norm_forward.ref = ref::rms_norm_forward; and so on; the CPU's slots begin with
  // the oracle:  table.dense.rms_norm_forward.cpu = ref::rms_norm_forward;
  static_cast<void>(table);
}

}  // namespace ulmus::ops
