#pragma once

#include <cstdint>

#include "ulmus/base/thread_pool.h"
#include "ulmus/ops/matmul.h"

namespace ulmus::ops::cpu {

/// One product of row-major f32 matrices; the forms are those of matmul.h.
///
///   c [m, n]  out; a, b in, as the form says. A stride is the distance between two rows.
///   k = 0 gives a product of zeros. c may overlap neither a nor b.
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

/// What is left of a product without terms: zeros, unless it is added.
void clear_empty_product(const Gemm& product);

/// On the calling thread: by direct_gemm where the library would spend its time on packing (small
/// weights, few rows, few columns), else by blas_gemm. The choice depends on the shape only.
void gemm(const Gemm& product);

/// On all threads, each making one block of c. Blocks depend on the shape and the number of threads
/// only; small products stay on the calling thread.
void parallel_gemm(const Gemm& product, ThreadPool& pool);

}  // namespace ulmus::ops::cpu
