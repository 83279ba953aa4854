#include "ulmus/ops/cpu/gemm.h"

#include <algorithm>
#include <limits>

#include "ulmus/ops/cpu/blas.h"
#include "ulmus/ops/cpu/direct_gemm.h"

namespace ulmus::ops::cpu {

namespace {

/// Multiply-adds below which waking the other threads takes longer than they would save.
constexpr double kMinParallelTerms = 1e5;
/// Cut points of rows and columns: whole register tiles of both kinds of kernels.
constexpr std::int64_t kRowGrain = 12;
constexpr std::int64_t kColumnGrain = 32;

/// As measured (benchmarks/ops/gemm_bench.cc): the library wins where packing both operands pays,
/// that is where many rows meet a weight matrix that leaves the second-level cache.
bool prefers_direct(const Gemm& g) {
  constexpr std::int64_t kResidentElements = 65536;
  constexpr std::int64_t kFewColumns = 128;
  constexpr std::int64_t kFewRows = 160;
  constexpr std::int64_t kFewTerms = 128;
  if (g.form == MatmulForm::kTN)
    return g.m * g.n <= kResidentElements / 8 || (8 <= g.k && g.k <= kFewTerms);
  return g.k * g.n <= kResidentElements || g.n <= kFewColumns || g.k <= kFewTerms ||
         g.m <= kFewRows;
}

struct Grid {
  std::int64_t rows;
  std::int64_t columns;
};

/// rows x columns = num_threads blocks with the smallest sum of sides: what a thread has to read.
Grid choose_grid(const Gemm& g, std::int64_t num_threads) {
  Grid best{num_threads, 1};
  double smallest = std::numeric_limits<double>::max();
  for (std::int64_t rows = 1; rows <= num_threads; ++rows) {
    if (num_threads % rows != 0) continue;
    const std::int64_t columns = num_threads / rows;
    // A side without a full grain for each thread leaves threads idle.
    const std::int64_t row_units = (g.m + kRowGrain - 1) / kRowGrain;
    const std::int64_t column_units = (g.n + kColumnGrain - 1) / kColumnGrain;
    const std::int64_t m = (row_units + rows - 1) / rows * kRowGrain;
    const std::int64_t n = (column_units + columns - 1) / columns * kColumnGrain;
    const double busy = static_cast<double>(std::min(rows, row_units)) *
                        static_cast<double>(std::min(columns, column_units));
    const double cost = static_cast<double>(m + n) * static_cast<double>(num_threads) / busy;
    if (cost < smallest) {
      smallest = cost;
      best = {rows, columns};
    }
  }
  return best;
}

std::int64_t cut(std::int64_t size, std::int64_t grain, std::int64_t part, std::int64_t parts) {
  const std::int64_t units = (size + grain - 1) / grain;
  return std::min(size, units * part / parts * grain);
}

}  // namespace

Gemm part_of(const Gemm& whole, std::int64_t m_begin, std::int64_t m_end, std::int64_t n_begin,
             std::int64_t n_end) {
  Gemm part = whole;
  part.m = m_end - m_begin;
  part.n = n_end - n_begin;
  part.a += whole.form == MatmulForm::kTN ? m_begin : m_begin * whole.a_stride;
  part.b += whole.form == MatmulForm::kNT ? n_begin * whole.b_stride : n_begin;
  part.c += m_begin * whole.c_stride + n_begin;
  return part;
}

void clear_empty_product(const Gemm& product) {
  if (product.accumulate == Accumulate::kAdd) return;
  for (std::int64_t row = 0; row < product.m; ++row) {
    std::fill_n(product.c + row * product.c_stride, product.n, 0.0F);
  }
}

void gemm(const Gemm& product) {
  if (product.m == 0 || product.n == 0) return;
  if (product.k == 0) return clear_empty_product(product);
  if (prefers_direct(product)) {
    direct_gemm(product);
  } else {
    blas_gemm(product);
  }
}

void parallel_gemm(const Gemm& product, ThreadPool& pool) {
  const double terms = static_cast<double>(product.m) * static_cast<double>(product.n) *
                       static_cast<double>(product.k);
  if (pool.num_threads() == 1 || terms < kMinParallelTerms) return gemm(product);
  const Grid grid = choose_grid(product, pool.num_threads());
  pool.run([&](int thread_idx) {
    const std::int64_t row = thread_idx / grid.columns;
    const std::int64_t column = thread_idx % grid.columns;
    gemm(part_of(product, cut(product.m, kRowGrain, row, grid.rows),
                 cut(product.m, kRowGrain, row + 1, grid.rows),
                 cut(product.n, kColumnGrain, column, grid.columns),
                 cut(product.n, kColumnGrain, column + 1, grid.columns)));
  });
}

}  // namespace ulmus::ops::cpu
