#include "ulmus/ops/cpu/blas.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "ulmus/base/check.h"

namespace ulmus::ops::cpu {

namespace {

blasint blas_int(std::int64_t size) {
  ULMUS_CHECK(size <= std::numeric_limits<blasint>::max(), "matrix size ", size,
              ", OpenBLAS takes at most ", std::numeric_limits<blasint>::max());
  return static_cast<blasint>(size);
}

/// OpenBLAS refuses a stride below one, also where there is nothing to stride over.
blasint blas_stride(std::int64_t stride) { return blas_int(std::max<std::int64_t>(stride, 1)); }

}  // namespace

void blas_gemm(const Gemm& product) {
  if (product.m == 0 || product.n == 0) return;
  if (product.k == 0) return clear_empty_product(product);
  const float beta = product.accumulate == Accumulate::kAdd ? 1.0F : 0.0F;
  cblas_sgemm(CblasRowMajor, product.form == MatmulForm::kTN ? CblasTrans : CblasNoTrans,
              product.form == MatmulForm::kNT ? CblasTrans : CblasNoTrans, blas_int(product.m),
              blas_int(product.n), blas_int(product.k), 1.0F, product.a,
              blas_stride(product.a_stride), product.b, blas_stride(product.b_stride), beta,
              product.c, blas_stride(product.c_stride));
}

void use_one_blas_thread() { openblas_set_num_threads(1); }

std::string_view blas_core_name() { return openblas_get_corename(); }

}  // namespace ulmus::ops::cpu
