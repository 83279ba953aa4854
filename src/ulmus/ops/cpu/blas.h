#pragma once

#include <cstdint>
#include <string_view>

#include "ulmus/ops/matmul.h"

namespace ulmus::ops::cpu {

/// One product of row-major f32 matrices on the calling thread; the forms are those of matmul.h.
///
///   c [m, n]  out; a, b in, as the form says. A stride is the distance between two rows.
///   k = 0 gives a product of zeros.
struct Gemm {
  MatmulForm form = MatmulForm::kNT;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  Accumulate accumulate = Accumulate::kOverwrite;
};

/// The rows [m_begin, m_end) and columns [n_begin, n_end) of a product.
Gemm part_of(const Gemm& whole, std::int64_t m_begin, std::int64_t m_end, std::int64_t n_begin,
             std::int64_t n_end);

/// By OpenBLAS. Its bits depend on the shape and on the kernels that OpenBLAS chose for this
/// processor (blas_core_name). Error when a size does not fit its 32-bit integers.
void blas_gemm(const Gemm& product);

/// By direct_gemm (direct_gemm.h) where OpenBLAS spends its time on packing: few rows, few columns
/// or a short sum; by blas_gemm elsewhere. The choice depends on the shape only.
void gemm(const Gemm& product);

/// The thread pool runs the kernels, one product a thread: OpenBLAS must not start threads of its
/// own inside. Called once, when the kernels are registered.
void use_one_blas_thread();

/// Which kernels OpenBLAS runs here ("Zen", "Haswell", ...): part of what fixes the bits of a run.
std::string_view blas_core_name();

}  // namespace ulmus::ops::cpu
