#pragma once

#include <cstdint>

#include "ulmus/ops/cpu/gemm.h"
#include "ulmus/ops/cpu/strips.h"

namespace ulmus::ops::cpu {

// Products of small f32 matrices on the calling thread, on operands where they lie: at most one
// narrow panel is copied (to the stack), where a library would first pack everything. Each output
// element sums over k in ascending order, in blocks that depend on the shape only.

/// c[i, j] (+)= sum over k of a[i * a_row + k * a_k] * b[k, j] for the columns of one strip.
///
///   c  [m, columns], rows c_stride apart: out
///   b  [k, 16] (strips.h; 8 floats a row are enough for up to 8 columns), rows b_stride apart: in
/// a_row = 1 reads a transposed matrix: its rows are a_k apart.
struct StripProduct {
  float* c = nullptr;
  std::int64_t c_stride = kStripColumns;
  const float* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_k = 1;
  const float* b = nullptr;
  std::int64_t b_stride = kStripColumns;
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t columns = kStripColumns;  ///< 1 to 16
  Accumulate accumulate = Accumulate::kOverwrite;
};
void strip_product(const StripProduct& product);

/// Any shape and form.
void direct_gemm(const Gemm& product);

}  // namespace ulmus::ops::cpu
