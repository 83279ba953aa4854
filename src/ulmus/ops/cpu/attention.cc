#include "ulmus/ops/attention.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "ulmus/ops/cpu/attention_tiles.h"
#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/direct_gemm.h"

namespace ulmus::ops::cpu {

namespace {

/// Below every score, and finite, so that a lane that has seen no key yet makes no NaN.
constexpr float kNoMaximum = -1e30F;

/// Softmax state of 16 queries.
struct QueryStrip {
  StripMask mask;
  std::int64_t num_queries = 0;
  float* q = nullptr;    ///< [P, 16], times scale / ln 2: scores are powers of two
  float* out = nullptr;  ///< [P, 16], sums so far relative to maximum
  F32x8 maximum[kStripVectors];
  F32x8 sum[kStripVectors];
};

/// Scratch of one thread: q and out of a tile of queries, scores [keys of a tile, 16] of one strip.
struct Buffers {
  Buffers(float* scratch, std::int64_t width)
      : q(scratch),
        out(q + kAttentionQueryTile * width),
        scores(out + kAttentionQueryTile * width) {}
  float* q;
  float* out;
  float* scores;
};

/// Scores of keys that a query does not see become -infinity.
template <int kVectors>
void mask_scores(const StripMask& mask, float* scores, KeyRange keys) {
  const F32x8 hidden = splat(-std::numeric_limits<float>::infinity());
  const KeyRange open = mask.seen_by_all(keys);
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    if (j == open.begin) j = open.end;
    if (j == keys.end) break;
    for (int v = 0; v < kVectors; ++v) {
      float* at = scores + (j - keys.begin) * kStripColumns + v * kLanes;
      store(at, select(mask.lanes_that_see(j, v), load(at), hidden));
    }
  }
}

bool is_any(I32x8 mask) {
  std::int32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    any |= mask[lane];
  return any != 0;
}

/// Sums so far, relative to a new maximum.
template <int kVectors>
void rescale(QueryStrip& strip, const F32x8* maximum, std::int64_t width) {
  F32x8 factor[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    factor[v] = exp2_of_score(strip.maximum[v] - maximum[v]);
    strip.sum[v] *= factor[v];
    strip.maximum[v] = maximum[v];
  }
  for (std::int64_t p = 0; p < width; ++p) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = strip.out + p * kStripColumns + v * kLanes;
      store(at, load(at) * factor[v]);
    }
  }
}

/// Scores (in powers of two) to 2^(score - maximum), with the running maximum and sum brought up to
/// date.
template <int kVectors>
void online_softmax(QueryStrip& strip, float* scores, std::int64_t num_keys, std::int64_t width) {
  F32x8 maximum[kVectors];
  for (int v = 0; v < kVectors; ++v)
    maximum[v] = strip.maximum[v];
  for (std::int64_t j = 0; j < num_keys; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      maximum[v] = max(load(scores + j * kStripColumns + v * kLanes), maximum[v]);
    }
  }
  I32x8 grown = {};
  for (int v = 0; v < kVectors; ++v)
    grown |= maximum[v] > strip.maximum[v];
  if (is_any(grown)) rescale<kVectors>(strip, maximum, width);
  F32x8 sum[kVectors];
  for (int v = 0; v < kVectors; ++v)
    sum[v] = strip.sum[v];
  for (std::int64_t j = 0; j < num_keys; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = scores + j * kStripColumns + v * kLanes;
      const F32x8 e = exp2_of_score(load(at) - maximum[v]);
      store(at, e);
      sum[v] += e;
    }
  }
  for (int v = 0; v < kVectors; ++v)
    strip.sum[v] = sum[v];
}

/// One strip against the keys of one tile.
template <int kVectors>
void attend(QueryStrip& strip, float* scores, const float* k, const float* v, KeyRange keys,
            const AttentionSizes& sizes) {
  const std::int64_t num_keys = keys.end - keys.begin;
  constexpr std::int64_t kColumns = kVectors * kLanes;
  strip_product({.c = scores,
                 .a = k,
                 .a_row = sizes.k_stride(),
                 .b = strip.q,
                 .m = num_keys,
                 .k = sizes.width,
                 .columns = kColumns});
  if (!strip.mask.all_see(keys)) mask_scores<kVectors>(strip.mask, scores, keys);
  online_softmax<kVectors>(strip, scores, num_keys, sizes.width);
  strip_product({.c = strip.out,
                 .a = v,
                 .a_row = 1,
                 .a_k = sizes.k_stride(),
                 .b = scores,
                 .m = sizes.width,
                 .k = num_keys,
                 .columns = kColumns,
                 .accumulate = Accumulate::kAdd});
}

/// out and lse of the queries of a strip.
void finish(const QueryStrip& strip, float* out, float* lse, const AttentionSizes& sizes) {
  alignas(32) std::array<float, kStripColumns> factors;
  for (std::int64_t lane = 0; lane < kStripColumns; ++lane) {
    const auto v = static_cast<std::size_t>(lane / kLanes);
    const float sum = strip.sum[v][lane % kLanes];
    factors[static_cast<std::size_t>(lane)] = 1.0F / sum;
    if (lane < strip.num_queries) {
      lse[lane * sizes.heads] = kLn2 * strip.maximum[v][lane % kLanes] + std::log(sum);
    }
  }
  unpack_strips_transposed(out, sizes.q_stride(), strip.out, sizes.width, strip.num_queries,
                           factors.data());
}

/// A tile of queries of one head of one sequence.
void forward_tile(const AttentionForwardArgs& args, const AttentionSizes& sizes,
                  std::int64_t sequence, std::int64_t head, std::int64_t tile,
                  const Buffers& buffers) {
  const std::int64_t first_query = tile * kAttentionQueryTile;
  const std::int64_t num_queries = std::min(kAttentionQueryTile, sizes.queries - first_query);
  const std::int64_t count = num_strips(num_queries);
  const std::int64_t q_at = sizes.q_at(sequence, first_query, head);
  pack_strips_transposed(buffers.q, args.q.data<float>() + q_at, sizes.q_stride(), sizes.width,
                         num_queries);
  const auto scale = static_cast<float>(args.scale * std::numbers::log2e);
  for (std::int64_t i = 0; i < count * kStripColumns * sizes.width; i += kLanes) {
    store(buffers.q + i, load(buffers.q + i) * scale);
  }
  std::fill_n(buffers.out, count * kStripColumns * sizes.width, 0.0F);
  std::array<QueryStrip, kQueryStrips> strips;
  KeyRange seen{sizes.keys, 0};
  for (std::int64_t s = 0; s < count; ++s) {
    QueryStrip& strip = strips[static_cast<std::size_t>(s)];
    strip.num_queries = std::min(kStripColumns, num_queries - s * kStripColumns);
    strip.mask = StripMask(sizes, sequence, first_query + s * kStripColumns, strip.num_queries);
    strip.q = buffers.q + s * kStripColumns * sizes.width;
    strip.out = buffers.out + s * kStripColumns * sizes.width;
    std::fill_n(strip.maximum, kStripVectors, splat(kNoMaximum));
    std::fill_n(strip.sum, kStripVectors, splat(0.0F));
    seen.begin = std::min(seen.begin, strip.mask.seen().begin);
    seen.end = std::max(seen.end, strip.mask.seen().end);
  }
  float* const out = args.out.data<float>() + q_at;
  prefetch_rows(out, sizes.q_stride(), num_queries, sizes.width);
  const float* const k = args.k.data<float>();
  const float* const v = args.v.data<float>();
  for (std::int64_t begin = seen.begin; begin < seen.end; begin += kAttentionKeyTile) {
    const std::int64_t next = begin + kAttentionKeyTile;
    const std::int64_t num_next = std::min(kAttentionKeyTile, seen.end - next);
    const std::int64_t next_at = sizes.k_at(sequence, next, head / sizes.group());
    prefetch_rows(k + next_at, sizes.k_stride(), num_next, sizes.width);
    prefetch_rows(v + next_at, sizes.k_stride(), num_next, sizes.width);
    for (std::int64_t s = 0; s < count; ++s) {
      QueryStrip& strip = strips[static_cast<std::size_t>(s)];
      const KeyRange keys{std::max(begin, strip.mask.seen().begin),
                          std::min(begin + kAttentionKeyTile, strip.mask.seen().end)};
      if (keys.is_empty()) continue;
      const std::int64_t at = sizes.k_at(sequence, keys.begin, head / sizes.group());
      if (strip.num_queries > kLanes) {
        attend<2>(strip, buffers.scores, k + at, v + at, keys, sizes);
      } else {
        attend<1>(strip, buffers.scores, k + at, v + at, keys, sizes);
      }
    }
  }
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t n = sequence * sizes.queries + first_query + s * kStripColumns;
    finish(strips[static_cast<std::size_t>(s)], out + s * kStripColumns * sizes.q_stride(),
           args.lse.data<float>() + n * sizes.heads + head, sizes);
  }
}

}  // namespace

void attention_forward(const AttentionForwardArgs& args, TensorView scratch,
                       const ExecContext& ctx) {
  const AttentionSizes sizes(args);
  if (sizes.queries == 0) return;
  ThreadPool& pool = ctx.device.pool();
  const std::int64_t tiles = sizes.query_tiles();
  pool.for_items(sizes.num_sequences * sizes.heads * tiles, [&](std::int64_t item, int thread_idx) {
    const std::int64_t head = item / tiles % sizes.heads;
    // Late tiles see more keys: they come first, so that the last items are the short ones.
    forward_tile(args, sizes, item / tiles / sizes.heads, head, tiles - 1 - item % tiles,
                 Buffers(thread_scratch(scratch, pool.num_threads(), thread_idx), sizes.width));
  });
}

}  // namespace ulmus::ops::cpu
