#include "ulmus/ops/head_loss.h"

#include <algorithm>
#include <cmath>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/gemm.h"
#include "ulmus/ops/cpu/score_exp.h"
#include "ulmus/ops/cpu/simd.h"
#include "ulmus/ops/front_door.h"

namespace ulmus::ops::cpu {

namespace {

/// What one row adds to the two loss sums, before the scale.
struct RowLoss {
  double cross_entropy = 0.0;
  double lse_squared = 0.0;
};

/// Running sums of a row: neighbours do not wait for each other.
constexpr std::int64_t kSums = 4;
constexpr std::int64_t kStep = kSums * kLanes;
/// Vectors are added up in f32 over so many elements, blocks in f64.
constexpr std::int64_t kSumBlock = 32 * kStep;

float largest_of(const float* z, std::int64_t n) {
  F32x8 largest[kSums];
  std::fill_n(largest, kSums, splat(z[0]));
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (std::int64_t s = 0; s < kSums; ++s) {
      largest[s] = max(load(z + i + s * kLanes), largest[s]);
    }
  }
  for (; i < n; i += kLanes) {
    largest[0] = max(load_first(z + i, std::min(kLanes, n - i), z[0]), largest[0]);
  }
  return horizontal_max(max(max(largest[0], largest[1]), max(largest[2], largest[3])));
}

/// z[i] = exp(z[i] - largest) and their sum.
double exponentials(float* z, std::int64_t n, float largest) {
  const float largest2 = largest * kLog2E;
  double total = 0.0;
  std::int64_t i = 0;
  while (i + kStep <= n) {
    F32x8 sums[kSums] = {};
    for (const std::int64_t end = std::min(i + kSumBlock, n); i + kStep <= end; i += kStep) {
      for (std::int64_t s = 0; s < kSums; ++s) {
        const F32x8 e = exp2_of_score(load(z + i + s * kLanes) * kLog2E - largest2);
        store(z + i + s * kLanes, e);
        sums[s] += e;
      }
    }
    const F32x8 sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    total += horizontal_sum(widen(low_half(sum)) + widen(high_half(sum)));
  }
  for (; i < n; i += kLanes) {
    const std::int64_t count = std::min(kLanes, n - i);
    const F32x8 e = exp2_of_score(load_first(z + i, count, -INFINITY) * kLog2E - largest2);
    store_first(z + i, e, count);
    total += static_cast<double>(horizontal_sum(e));
  }
  return total;
}

void multiply(float* z, std::int64_t n, float factor) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(z + i, load(z + i) * factor);
  if (i < n) store_first(z + i, load_first(z + i, n - i) * factor, n - i);
}

enum class RowResult : std::uint8_t { kLossOnly, kGradient };

/// One row of logits, which becomes dz where gradients are wanted.
RowLoss softmax_row(float* z, std::int64_t n, std::int32_t target, const HeadLossArgs& args,
                    RowResult result) {
  if (target < 0) {
    if (result == RowResult::kGradient) std::fill_n(z, n, 0.0F);
    return {};
  }
  const auto target_score = static_cast<double>(z[target]);
  const float largest = largest_of(z, n);
  const double sum = exponentials(z, n, largest);
  const double lse = static_cast<double>(largest) + std::log(sum);
  if (result == RowResult::kGradient) {
    const double factor = args.scale * (1.0 + 2.0 * args.z_coefficient * lse) / sum;
    multiply(z, n, static_cast<float>(factor));
    z[target] -= static_cast<float>(args.scale);
  }
  return {lse - target_score, lse * lse};
}

/// Chunk after chunk of rows: logits, dz in their place, grad_x and grad_weight.
class HeadLoss {
 public:
  HeadLoss(const HeadLossArgs& args, const TensorView& scratch, ThreadPool& pool)
      : args_(args),
        pool_(pool),
        num_rows_(args.x.dim(0)),
        width_(args.x.dim(1)),
        vocabulary_(args.weight.dim(0)),
        chunk_rows_(std::min(args.chunk_rows, num_rows_)),
        logits_(static_cast<float*>(scratch.raw_data())),
        row_losses_(reinterpret_cast<RowLoss*>(
            static_cast<std::byte*>(scratch.raw_data()) +
            in_cache_lines(chunk_rows_ * vocabulary_ * size_of(DType::kF32)))) {}

  void run() {
    RowLoss total;
    for (std::int64_t begin = 0; begin < num_rows_; begin += chunk_rows_) {
      const std::int64_t rows = std::min(chunk_rows_, num_rows_ - begin);
      form_logits(begin, rows);
      softmax_rows(begin, rows);
      for (std::int64_t i = 0; i < rows; ++i) {
        total.cross_entropy += row_losses_[i].cross_entropy;
        total.lse_squared += row_losses_[i].lse_squared;
      }
      if (!args_.grad_x.is_empty()) add_gradients(begin, rows);
    }
    auto* const loss_sums = args_.loss_sums.data<double>();
    loss_sums[0] += args_.scale * total.cross_entropy;
    loss_sums[1] += args_.scale * total.lse_squared;
  }

 private:
  const float* x_row(std::int64_t row) const { return args_.x.data<float>() + row * width_; }

  void form_logits(std::int64_t begin, std::int64_t rows) {
    parallel_gemm({.form = MatmulForm::kNT,
                   .m = rows,
                   .n = vocabulary_,
                   .k = width_,
                   .a = x_row(begin),
                   .a_stride = width_,
                   .b = args_.weight.data<float>(),
                   .b_stride = width_,
                   .c = logits_,
                   .c_stride = vocabulary_},
                  pool_);
  }

  void softmax_rows(std::int64_t begin, std::int64_t rows) {
    const RowResult result = args_.grad_x.is_empty() ? RowResult::kLossOnly : RowResult::kGradient;
    const std::int32_t* const targets = args_.targets.data<std::int32_t>() + begin;
    pool_.for_items(rows, [&](std::int64_t i, int) {
      row_losses_[i] =
          softmax_row(logits_ + i * vocabulary_, vocabulary_, targets[i], args_, result);
    });
  }

  void add_gradients(std::int64_t begin, std::int64_t rows) {
    parallel_gemm({.form = MatmulForm::kNN,
                   .m = rows,
                   .n = width_,
                   .k = vocabulary_,
                   .a = logits_,
                   .a_stride = vocabulary_,
                   .b = args_.weight.data<float>(),
                   .b_stride = width_,
                   .c = args_.grad_x.data<float>() + begin * width_,
                   .c_stride = width_},
                  pool_);
    parallel_gemm({.form = MatmulForm::kTN,
                   .m = vocabulary_,
                   .n = width_,
                   .k = rows,
                   .a = logits_,
                   .a_stride = vocabulary_,
                   .b = x_row(begin),
                   .b_stride = width_,
                   .c = args_.grad_weight.data<float>(),
                   .c_stride = width_,
                   .accumulate = Accumulate::kAdd},
                  pool_);
  }

  const HeadLossArgs& args_;
  ThreadPool& pool_;
  std::int64_t num_rows_;
  std::int64_t width_;
  std::int64_t vocabulary_;
  std::int64_t chunk_rows_;
  float* logits_;
  RowLoss* row_losses_;
};

}  // namespace

void head_loss(const HeadLossArgs& args, TensorView scratch, const ExecContext& ctx) {
  if (args.x.dim(0) == 0) return;
  HeadLoss(args, scratch, ctx.device.pool()).run();
}

}  // namespace ulmus::ops::cpu
