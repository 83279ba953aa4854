#include "ulmus/ops/route_rows.h"

#include <algorithm>
#include <cstring>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/simd.h"
#include "ulmus/ops/cpu/streaming.h"
#include "ulmus/ops/cpu/strips.h"

namespace ulmus::ops::cpu {

namespace {

/// How far ahead of the copy rows are asked for.
constexpr std::int64_t kRowsAhead = 2;

/// Bytes of a combine_rows whose operands are not expected in the caches.
constexpr std::int64_t kCombinedFromMemory = 4 * kStreamedBytes;

/// One token of combine_rows.
struct CombineRow {
  float* out;
  const float* grouped;
  const float* weights;  ///< nullptr: all 1
  const std::int32_t* rows;
  const std::int32_t* next_rows;  ///< of the token that comes next; nullptr: none does
  std::int64_t top_k;
  std::int64_t width;
  bool streams;  ///< writes past the caches
};

/// Asks for the same columns of the next token.
[[gnu::always_inline]] inline void prefetch_next(const CombineRow& token, std::int64_t d,
                                                 std::int64_t columns) {
  if (token.next_rows == nullptr) return;
  for (std::int64_t k = 0; k < token.top_k; ++k) {
    const std::int64_t row = std::max(token.next_rows[k], 0);
    prefetch_rows(token.grouped + row * token.width + d, token.width, 1, columns);
  }
}

/// kVectors * 8 columns from d, summed in registers.
template <int kVectors>
[[gnu::always_inline]] inline void combine_columns(const CombineRow& token, std::int64_t d) {
  F32x8 sum[kVectors] = {};
  for (std::int64_t k = 0; k < token.top_k; ++k) {
    if (token.rows[k] < 0) continue;
    const float* from = token.grouped + token.rows[k] * token.width + d;
    const float weight = token.weights != nullptr ? token.weights[k] : 1.0F;
    for (int v = 0; v < kVectors; ++v)
      sum[v] += weight * load(from + v * kLanes);
  }
  if (token.streams) {
    stream_copy(token.out + d, sum, kVectors * kLanes * size_of(DType::kF32));
  } else {
    std::memcpy(token.out + d, sum, sizeof(sum));
  }
}

void combine_tail(const CombineRow& token, std::int64_t d, std::int64_t count) {
  F32x8 sum{};
  for (std::int64_t k = 0; k < token.top_k; ++k) {
    if (token.rows[k] < 0) continue;
    const float weight = token.weights != nullptr ? token.weights[k] : 1.0F;
    sum += weight * load_first(token.grouped + token.rows[k] * token.width + d, count);
  }
  store_first(token.out + d, sum, count);
}

/// In vectors, since memcpy takes longer to begin than rows of some KiB to copy where it becomes
/// one string instruction.
void copy_row(float* to, const float* from, std::int64_t width) {
  std::int64_t d = 0;
  for (; d + 4 * kLanes <= width; d += 4 * kLanes) {
    const F32x8 x0 = load(from + d);
    const F32x8 x1 = load(from + d + kLanes);
    const F32x8 x2 = load(from + d + 2 * kLanes);
    const F32x8 x3 = load(from + d + 3 * kLanes);
    store(to + d, x0);
    store(to + d + kLanes, x1);
    store(to + d + 2 * kLanes, x2);
    store(to + d + 3 * kLanes, x3);
  }
  for (; d + kLanes <= width; d += kLanes)
    store(to + d, load(from + d));
  if (d < width) store_first(to + d, load_first(from + d, width - d), width - d);
}

void combine_row(const CombineRow& token) {
  constexpr int kVectors = 8;
  std::int64_t d = 0;
  for (; d + kVectors * kLanes <= token.width; d += kVectors * kLanes) {
    prefetch_next(token, d, kVectors * kLanes);
    combine_columns<kVectors>(token, d);
  }
  for (; d + kLanes <= token.width; d += kLanes)
    combine_columns<1>(token, d);
  if (d < token.width) combine_tail(token, d, token.width - d);
}

}  // namespace

void gather_rows(const GatherRowsArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  float* grouped = args.grouped.data<float>();
  const float* rows = args.rows.data<float>();
  const std::int32_t* route_of_row = args.route_of_row.data<std::int32_t>();
  const std::int64_t width = args.rows.dim(1);
  const std::int64_t num_rows = rows_in_use(args.row_count, args.grouped.dim(0));
  const std::int64_t row_bytes = width * size_of(DType::kF32);
  const bool streams = 2 * num_rows * row_bytes >= kStreamedBytes;
  const std::int32_t top_k = args.top_k;
  const auto token_row = [=](std::int64_t r) { return rows + route_of_row[r] / top_k * width; };
  ctx.device.pool().for_ranges(num_rows, row_grain(width),
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 for (std::int64_t r = begin; r < end; ++r) {
                                   if (r + kRowsAhead < end)
                                     prefetch_rows(token_row(r + kRowsAhead), width, 1, width);
                                   if (streams) {
                                     stream_copy(grouped + r * width, token_row(r), row_bytes);
                                   } else {
                                     copy_row(grouped + r * width, token_row(r), width);
                                   }
                                 }
                                 if (streams) end_streams();
                               });
}

void combine_rows(const CombineRowsArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  float* out = args.out.data<float>();
  const float* grouped = args.grouped.data<float>();
  const float* weights = args.weights.is_empty() ? nullptr : args.weights.data<float>();
  const std::int32_t* row_of_route = args.row_of_route.data<std::int32_t>();
  const std::int64_t width = args.out.dim(1);
  const std::int64_t top_k = args.row_of_route.dim(1);
  const std::int64_t num_rows = args.out.dim(0) * (top_k + 1);
  const bool streams = num_rows * width * size_of(DType::kF32) >= kCombinedFromMemory;
  ctx.device.pool().for_ranges(
      args.out.dim(0), row_grain(width * top_k), [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t n = begin; n < end; ++n) {
          const std::int32_t* rows = row_of_route + n * top_k;
          const CombineRow token{.out = out + n * width,
                                 .grouped = grouped,
                                 .weights = weights != nullptr ? weights + n * top_k : nullptr,
                                 .rows = rows,
                                 .next_rows = n + 1 < end ? rows + top_k : nullptr,
                                 .top_k = top_k,
                                 .width = width,
                                 .streams = streams};
          combine_row(token);
        }
        if (streams) end_streams();
      });
}

void gather_scalars(const GatherScalarsArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  float* of_row = args.of_row.data<float>();
  const float* of_route = args.of_route.data<float>();
  const std::int32_t* route_of_row = args.route_of_row.data<std::int32_t>();
  ctx.device.pool().for_ranges(rows_in_use(args.row_count, args.of_row.dim(0)), kMinElements,
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 for (std::int64_t r = begin; r < end; ++r)
                                   of_row[r] = of_route[route_of_row[r]];
                               });
}

void collect_scalars(const CollectScalarsArgs& args, TensorView /*scratch*/,
                     const ExecContext& ctx) {
  float* of_route = args.of_route.data<float>();
  const float* of_row = args.of_row.data<float>();
  const std::int32_t* row_of_route = args.row_of_route.data<std::int32_t>();
  ctx.device.pool().for_ranges(
      args.of_route.numel(), kMinElements, [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t route = begin; route < end; ++route) {
          of_route[route] = row_of_route[route] < 0 ? 0.0F : of_row[row_of_route[route]];
        }
      });
}

}  // namespace ulmus::ops::cpu
