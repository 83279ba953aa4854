#pragma once

#include <string_view>

#include "ulmus/ops/cpu/gemm.h"

namespace ulmus::ops::cpu {

/// One product on the calling thread, by OpenBLAS. Its bits depend on the shape and on the kernels
/// that OpenBLAS chose for this processor. Error when a size does not fit its integers.
void blas_gemm(const Gemm& product);

/// The thread pool runs the kernels, one product a thread: OpenBLAS must not start threads of its
/// own inside. Called once, when the kernels are registered.
void use_one_blas_thread();

/// Which kernels OpenBLAS runs here ("Zen", "Haswell", ...): part of what fixes the bits of a run.
std::string_view blas_core_name();

}  // namespace ulmus::ops::cpu
