#include "ulmus/ops/rms_norm.h"

#include <cmath>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/simd.h"
#include "ulmus/ops/front_door.h"

namespace ulmus::ops::cpu {

namespace {

constexpr std::int64_t kRowTile = 4;  // rows whose weight gradients are summed in registers

float sum_of_squares(const float* x, std::int64_t width) {
  F32x8 sum0{};
  F32x8 sum1{};
  F32x8 sum2{};
  F32x8 sum3{};
  std::int64_t d = 0;
  for (; d + 4 * kLanes <= width; d += 4 * kLanes) {
    const F32x8 x0 = load(x + d);
    const F32x8 x1 = load(x + d + kLanes);
    const F32x8 x2 = load(x + d + 2 * kLanes);
    const F32x8 x3 = load(x + d + 3 * kLanes);
    sum0 += x0 * x0;
    sum1 += x1 * x1;
    sum2 += x2 * x2;
    sum3 += x3 * x3;
  }
  for (; d + kLanes <= width; d += kLanes) {
    const F32x8 x0 = load(x + d);
    sum0 += x0 * x0;
  }
  if (d < width) {
    const F32x8 x0 = load_first(x + d, width - d);
    sum1 += x0 * x0;
  }
  return horizontal_sum((sum0 + sum1) + (sum2 + sum3));
}

void forward_row(float* y, const float* x, const float* weight, float inv_rms, std::int64_t width) {
  std::int64_t d = 0;
  for (; d + kLanes <= width; d += kLanes) {
    store(y + d, load(x + d) * inv_rms * load(weight + d));
  }
  const std::int64_t left = width - d;
  if (left > 0) {
    store_first(y + d, load_first(x + d, left) * inv_rms * load_first(weight + d, left), left);
  }
}

/// sum_d grad_y[d] weight[d] x[d]
float weighted_dot(const float* grad_y, const float* weight, const float* x, std::int64_t width) {
  F32x8 sum0{};
  F32x8 sum1{};
  std::int64_t d = 0;
  for (; d + 2 * kLanes <= width; d += 2 * kLanes) {
    sum0 += load(grad_y + d) * load(weight + d) * load(x + d);
    sum1 += load(grad_y + d + kLanes) * load(weight + d + kLanes) * load(x + d + kLanes);
  }
  for (; d < width; d += kLanes) {
    const std::int64_t count = width - d < kLanes ? width - d : kLanes;
    sum0 +=
        load_first(grad_y + d, count) * load_first(weight + d, count) * load_first(x + d, count);
  }
  return horizontal_sum(sum0 + sum1);
}

[[gnu::always_inline]] inline void add_to(double* sums, F32x8 x, std::int64_t count) {
  if (count == kLanes) {
    F64x4 low;
    F64x4 high;
    std::memcpy(&low, sums, sizeof(low));
    std::memcpy(&high, sums + 4, sizeof(high));
    low += widen(low_half(x));
    high += widen(high_half(x));
    std::memcpy(sums, &low, sizeof(low));
    std::memcpy(sums + 4, &high, sizeof(high));
    return;
  }
  for (std::int64_t lane = 0; lane < count; ++lane)
    sums[lane] += static_cast<double>(x[lane]);
}

struct BackwardRows {
  float* grad_x;
  const float* grad_y;
  const float* x;
  const float* weight;
  const float* inv_rms;
  std::int64_t width;
  Accumulate accumulate;
};

/// `count` columns of kRows rows from (n, d).
template <int kRows>
[[gnu::always_inline]] inline void backward_columns(const BackwardRows& rows, double* grad_weight,
                                                    std::int64_t n, std::int64_t d,
                                                    std::int64_t count, const float* means) {
  const bool whole = count == kLanes;
  const auto read = [=](const float* from) { return whole ? load(from) : load_first(from, count); };
  const F32x8 weight = read(rows.weight + d);
  F32x8 sum{};
  for (int row = 0; row < kRows; ++row) {
    const std::int64_t at = (n + row) * rows.width + d;
    const float inv_rms = rows.inv_rms[n + row];
    const F32x8 grad_y = read(rows.grad_y + at);
    const F32x8 normed = read(rows.x + at) * inv_rms;
    F32x8 grad_x = inv_rms * (grad_y * weight - normed * means[row]);
    if (rows.accumulate == Accumulate::kAdd) grad_x += read(rows.grad_x + at);
    if (whole) {
      store(rows.grad_x + at, grad_x);
    } else {
      store_first(rows.grad_x + at, grad_x, count);
    }
    sum += grad_y * normed;
  }
  add_to(grad_weight + d, sum, count);
}

template <int kRows>
void backward_tile(const BackwardRows& rows, double* grad_weight, std::int64_t n) {
  const std::int64_t width = rows.width;
  float means[kRows];
  for (int row = 0; row < kRows; ++row) {
    const std::int64_t at = (n + row) * width;
    means[row] = weighted_dot(rows.grad_y + at, rows.weight, rows.x + at, width) *
                 rows.inv_rms[n + row] / static_cast<float>(width);
  }
  std::int64_t d = 0;
  for (; d + kLanes <= width; d += kLanes) {
    backward_columns<kRows>(rows, grad_weight, n, d, kLanes, means);
  }
  if (d < width) backward_columns<kRows>(rows, grad_weight, n, d, width - d, means);
}

}  // namespace

void rms_norm_forward(const RmsNormForwardArgs& args, TensorView /*scratch*/,
                      const ExecContext& ctx) {
  float* y = args.y.data<float>();
  float* inv_rms = args.inv_rms.data<float>();
  const float* x = args.x.data<float>();
  const float* weight = args.weight.data<float>();
  const std::int64_t width = args.x.dim(1);
  const auto eps = static_cast<float>(args.eps);
  ctx.device.pool().for_ranges(
      args.x.dim(0), row_grain(width), [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t n = begin; n < end; ++n) {
          const float* row = x + n * width;
          const float mean = sum_of_squares(row, width) / static_cast<float>(width);
          inv_rms[n] = 1.0F / std::sqrt(mean + eps);
          forward_row(y + n * width, row, weight, inv_rms[n], width);
        }
      });
}

/// Threads own ranges of rows and sum grad_weight over theirs in f64; the partial sums are added in
/// the order of the threads.
void rms_norm_backward(const RmsNormBackwardArgs& args, TensorView scratch,
                       const ExecContext& ctx) {
  if (args.x.dim(0) == 0) return;
  ThreadPool& pool = ctx.device.pool();
  const BackwardRows rows{.grad_x = args.grad_x.data<float>(),
                          .grad_y = args.grad_y.data<float>(),
                          .x = args.x.data<float>(),
                          .weight = args.weight.data<float>(),
                          .inv_rms = args.inv_rms.data<float>(),
                          .width = args.x.dim(1),
                          .accumulate = args.accumulate};
  const std::int64_t num_rows = args.x.dim(0);
  const std::int64_t width = rows.width;
  const int num_threads = pool.num_threads();
  // [threads, D], rows padded so that no cache line has two writers
  auto* partials = static_cast<double*>(scratch.raw_data());
  const std::int64_t stride = in_cache_lines(width * size_of(DType::kF64)) / size_of(DType::kF64);
  pool.run([&](int thread_idx) {
    double* sums = partials + thread_idx * stride;
    for (std::int64_t d = 0; d < width; ++d)
      sums[d] = 0.0;
    const std::int64_t end = num_rows * (thread_idx + 1) / num_threads;
    std::int64_t n = num_rows * thread_idx / num_threads;
    for (; n + kRowTile <= end; n += kRowTile)
      backward_tile<kRowTile>(rows, sums, n);
    for (; n < end; ++n)
      backward_tile<1>(rows, sums, n);
  });
  float* grad_weight = args.grad_weight.data<float>();
  pool.for_ranges(width, kMinElements, [=](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t d = begin; d < end; ++d) {
      double sum = 0.0;
      for (int thread_idx = 0; thread_idx < num_threads; ++thread_idx) {
        sum += partials[thread_idx * stride + d];
      }
      grad_weight[d] += static_cast<float>(sum);
    }
  });
}

}  // namespace ulmus::ops::cpu
