#include <algorithm>
#include <array>

#include "ulmus/ops/attention.h"
#include "ulmus/ops/cpu/attention_tiles.h"
#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/direct_gemm.h"

namespace ulmus::ops::cpu {

namespace {

constexpr std::int64_t kKeyTile = kAttentionKeyTile;
static_assert(kKeyTile % kStripColumns == 0);
constexpr std::int64_t kQueryTile = kAttentionQueryTile;

/// Scratch of one thread; its size is attention_backward_scratch_bytes.
struct Buffers {
  Buffers(float* scratch, std::int64_t width)
      : q(scratch),
        grad_out(q + kQueryTile * width),
        grad_q(grad_out + kQueryTile * width),
        q_rows(grad_q + kQueryTile * width),
        grad_out_rows(q_rows + strip_elements(kQueryTile, width)),
        probability(grad_out_rows + strip_elements(kQueryTile, width)),
        grad_score(probability + kKeyTile * kQueryTile) {}
  float* q;              ///< strips of queries, [P, 16] each
  float* grad_out;       ///< likewise
  float* grad_q;         ///< likewise
  float* q_rows;         ///< strips of channels, [queries, 16] each, kQueryTile rows apart
  float* grad_out_rows;  ///< likewise
  float* probability;    ///< [keys, kQueryTile]
  float* grad_score;     ///< likewise, times the scale
};

struct Backward {
  const AttentionBackwardArgs& args;
  AttentionSizes sizes;
};

/// What is needed of the queries of one tile and head, besides the packed operands.
struct QueryTile {
  std::int64_t sequence = 0;
  std::int64_t head = 0;
  std::int64_t first_query = 0;
  std::int64_t num_queries = 0;
  std::int64_t count = 0;  ///< strips
  KeyRange seen;
  std::array<StripMask, kQueryStrips> masks;
  alignas(32) std::array<float, kQueryTile> lse{};
  alignas(32) std::array<float, kQueryTile> delta{};
};

/// Which keys (rows of the tile, whole groups of 16) each strip of queries computes.
using Cells = std::array<KeyRange, kQueryStrips>;

QueryTile tile_of(const AttentionSizes& sizes, std::int64_t sequence, std::int64_t head,
                  std::int64_t tile) {
  QueryTile queries;
  queries.sequence = sequence;
  queries.head = head;
  queries.first_query = tile * kQueryTile;
  queries.num_queries = std::min(kQueryTile, sizes.queries - queries.first_query);
  queries.count = num_strips(queries.num_queries);
  queries.seen = {sizes.keys, 0};
  for (std::int64_t s = 0; s < queries.count; ++s) {
    const std::int64_t first = s * kStripColumns;
    StripMask& mask = queries.masks[static_cast<std::size_t>(s)];
    mask = StripMask(sizes, sequence, queries.first_query + first,
                     std::min(kStripColumns, queries.num_queries - first));
    queries.seen.begin = std::min(queries.seen.begin, mask.seen().begin);
    queries.seen.end = std::max(queries.seen.end, mask.seen().end);
  }
  return queries;
}

float dot(const float* a, const float* b, std::int64_t n) {
  F32x8 even = {};
  F32x8 odd = {};
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even += load(a + i) * load(b + i);
    odd += load(a + i + kLanes) * load(b + i + kLanes);
  }
  for (; i < n; i += kLanes) {
    const std::int64_t count = std::min(kLanes, n - i);
    even += load_first(a + i, count) * load_first(b + i, count);
  }
  return horizontal_sum(even + odd);
}

/// Packs q and grad_out, forms delta and clears grad_q.
void load_queries(const Backward& call, QueryTile& queries, const Buffers& buffers) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width;
  const std::int64_t stride = sizes.q_stride();
  const std::int64_t at = sizes.q_at(queries.sequence, queries.first_query, queries.head);
  const float* const q = call.args.q.data<float>() + at;
  const float* const out = call.args.out.data<float>() + at;
  const float* const grad_out = call.args.grad_out.data<float>() + at;
  pack_strips_transposed(buffers.q, q, stride, width, queries.num_queries);
  pack_strips_transposed(buffers.grad_out, grad_out, stride, width, queries.num_queries);
  for (std::int64_t p = 0; p < width; p += kStripColumns) {
    const std::int64_t columns = std::min(kStripColumns, width - p);
    pack_strips(buffers.q_rows + p * kQueryTile, q + p, stride, queries.num_queries, columns);
    pack_strips(buffers.grad_out_rows + p * kQueryTile, grad_out + p, stride, queries.num_queries,
                columns);
  }
  std::fill_n(buffers.grad_q, queries.count * kStripColumns * width, 0.0F);
  const std::int64_t row = queries.sequence * sizes.queries + queries.first_query;
  const float* const lse = call.args.lse.data<float>() + row * sizes.heads + queries.head;
  for (std::int64_t i = 0; i < queries.num_queries; ++i) {
    const auto lane = static_cast<std::size_t>(i);
    queries.lse[lane] = lse[i * sizes.heads];
    queries.delta[lane] = dot(grad_out + i * stride, out + i * stride, width);
  }
}

/// What the scores of one strip are compared with.
struct StripState {
  F32x8 lse[kStripVectors];  ///< in powers of two
  F32x8 delta[kStripVectors];
};

/// One key: scores to probabilities, gradients of probabilities to those of scores.
template <bool kHides>
[[gnu::always_inline]] inline void softmax_row(const StripState& state, const StripMask& mask,
                                               std::int64_t key, float* probability,
                                               float* grad_score, float scale) {
  const float scale2 = scale * kLog2E;
#pragma GCC unroll 2
  for (std::int64_t v = 0; v < kStripVectors; ++v) {
    F32x8 p = exp2_of_score(load(probability + v * kLanes) * scale2 - state.lse[v]);
    if constexpr (kHides) p = select(mask.lanes_that_see(key, v), p, splat(0.0F));
    store(probability + v * kLanes, p);
    store(grad_score + v * kLanes, (load(grad_score + v * kLanes) - state.delta[v]) * (p * scale));
  }
}

void softmax_tile(const QueryTile& queries, std::int64_t strip, KeyRange keys, float* probability,
                  float* grad_score, float scale) {
  const StripMask& mask = queries.masks[static_cast<std::size_t>(strip)];
  StripState state;
  for (std::int64_t v = 0; v < kStripVectors; ++v) {
    const std::int64_t lane = strip * kStripColumns + v * kLanes;
    state.lse[v] = load(queries.lse.data() + lane) * kLog2E;
    state.delta[v] = load(queries.delta.data() + lane);
  }
  const auto rows = [&](std::int64_t begin, std::int64_t end, const auto& row) {
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t at = (j - keys.begin) * kQueryTile;
      row(j, probability + at, grad_score + at);
    }
  };
  const KeyRange open = mask.seen_by_all(keys);
  const auto hiding = [&](std::int64_t j, float* p, float* ds) {
    softmax_row<true>(state, mask, j, p, ds, scale);
  };
  rows(keys.begin, open.begin, hiding);
  rows(open.begin, open.end, [&](std::int64_t j, float* p, float* ds) {
    softmax_row<false>(state, mask, j, p, ds, scale);
  });
  rows(open.end, keys.end, hiding);
}

/// Rows of one strip that are not computed: nobody sees them.
void clear_rows(float* tile, std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = begin; j < end; ++j)
    std::fill_n(tile + j * kQueryTile, kStripColumns, 0.0F);
}

/// probability and grad_score of a tile of queries and a tile of keys.
Cells form_scores(const Backward& call, const QueryTile& queries, KeyRange keys,
                  const Buffers& buffers) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t at = sizes.k_at(queries.sequence, keys.begin, queries.head / sizes.group());
  const float* const k = call.args.k.data<float>() + at;
  const float* const v = call.args.v.data<float>() + at;
  const std::int64_t num_keys = keys.end - keys.begin;
  Cells cells;
  for (std::int64_t s = 0; s < queries.count; ++s) {
    const KeyRange seen = queries.masks[static_cast<std::size_t>(s)].seen();
    KeyRange& rows = cells[static_cast<std::size_t>(s)];
    rows.begin = std::clamp<std::int64_t>(seen.begin - keys.begin, 0, num_keys) / kStripColumns *
                 kStripColumns;
    rows.end = std::min(
        num_strips(std::max<std::int64_t>(seen.end - keys.begin, 0)) * kStripColumns, num_keys);
    if (rows.is_empty()) rows = {num_keys, num_keys};
    float* const probability = buffers.probability + s * kStripColumns;
    float* const grad_score = buffers.grad_score + s * kStripColumns;
    clear_rows(probability, 0, rows.begin);
    clear_rows(grad_score, 0, rows.begin);
    clear_rows(probability, rows.end, num_keys);
    clear_rows(grad_score, rows.end, num_keys);
    if (rows.is_empty()) continue;
    StripProduct product{.c = probability + rows.begin * kQueryTile,
                         .c_stride = kQueryTile,
                         .a = k + rows.begin * sizes.k_stride(),
                         .a_row = sizes.k_stride(),
                         .b = buffers.q + s * kStripColumns * sizes.width,
                         .m = rows.end - rows.begin,
                         .k = sizes.width};
    strip_product(product);
    product.c = grad_score + rows.begin * kQueryTile;
    product.a = v + rows.begin * sizes.k_stride();
    product.b = buffers.grad_out + s * kStripColumns * sizes.width;
    strip_product(product);
    softmax_tile(queries, s, {keys.begin + rows.begin, keys.begin + rows.end},
                 probability + rows.begin * kQueryTile, grad_score + rows.begin * kQueryTile,
                 static_cast<float>(call.args.scale));
  }
  return cells;
}

/// Strips of queries that see at least one key of a group of 16: first and one past the last.
KeyRange strips_that_see(const Cells& cells, std::int64_t count, std::int64_t row) {
  KeyRange strips{count, 0};
  for (std::int64_t s = 0; s < count; ++s) {
    const KeyRange rows = cells[static_cast<std::size_t>(s)];
    if (rows.begin > row || row >= rows.end) continue;
    strips.begin = std::min(strips.begin, s);
    strips.end = s + 1;
  }
  return strips;
}

/// grad_v += probability grad_out and grad_k += grad_score q, for the keys of a tile.
void add_to_keys(const Backward& call, const QueryTile& queries, KeyRange keys, const Cells& cells,
                 const Buffers& buffers) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t at = sizes.k_at(queries.sequence, keys.begin, queries.head / sizes.group());
  const std::int64_t num_keys = keys.end - keys.begin;
  for (std::int64_t row = 0; row < num_keys;) {
    const KeyRange strips = strips_that_see(cells, queries.count, row);
    std::int64_t end = row + kStripColumns;
    for (; end < num_keys; end += kStripColumns) {
      const KeyRange next = strips_that_see(cells, queries.count, end);
      if (next.begin != strips.begin || next.end != strips.end) break;
    }
    end = std::min(end, num_keys);
    const std::int64_t first = strips.begin * kStripColumns;
    const std::int64_t num_queries =
        std::min(strips.end * kStripColumns, queries.num_queries) - first;
    for (std::int64_t p = 0; p < sizes.width && num_queries > 0; p += kStripColumns) {
      StripProduct product{.c_stride = sizes.k_stride(),
                           .a_row = kQueryTile,
                           .m = end - row,
                           .k = num_queries,
                           .columns = std::min(kStripColumns, sizes.width - p),
                           .accumulate = Accumulate::kAdd};
      const std::int64_t to = at + row * sizes.k_stride() + p;
      product.c = call.args.grad_v.data<float>() + to;
      product.a = buffers.probability + row * kQueryTile + first;
      product.b = buffers.grad_out_rows + p * kQueryTile + first * kStripColumns;
      strip_product(product);
      product.c = call.args.grad_k.data<float>() + to;
      product.a = buffers.grad_score + row * kQueryTile + first;
      product.b = buffers.q_rows + p * kQueryTile + first * kStripColumns;
      strip_product(product);
    }
    row = end;
  }
}

/// grad_q += grad_score^T k, for a tile of queries, in strips.
void add_to_queries(const Backward& call, const QueryTile& queries, KeyRange keys,
                    const Cells& cells, const Buffers& buffers) {
  const AttentionSizes& sizes = call.sizes;
  const float* const k = call.args.k.data<float>() +
                         sizes.k_at(queries.sequence, keys.begin, queries.head / sizes.group());
  for (std::int64_t s = 0; s < queries.count; ++s) {
    const KeyRange rows = cells[static_cast<std::size_t>(s)];
    if (rows.is_empty()) continue;
    strip_product({.c = buffers.grad_q + s * kStripColumns * sizes.width,
                   .a = k + rows.begin * sizes.k_stride(),
                   .a_row = 1,
                   .a_k = sizes.k_stride(),
                   .b = buffers.grad_score + rows.begin * kQueryTile + s * kStripColumns,
                   .b_stride = kQueryTile,
                   .m = sizes.width,
                   .k = rows.end - rows.begin,
                   .accumulate = Accumulate::kAdd});
  }
}

void write_grad_q(const Backward& call, const QueryTile& queries, const Buffers& buffers) {
  std::array<float, kQueryTile> ones;
  ones.fill(1.0F);
  unpack_strips_transposed(call.args.grad_q.data<float>() +
                               call.sizes.q_at(queries.sequence, queries.first_query, queries.head),
                           call.sizes.q_stride(), buffers.grad_q, call.sizes.width,
                           queries.num_queries, ones.data());
}

void clear_keys(const Backward& call, std::int64_t sequence, std::int64_t key_head, KeyRange keys) {
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const std::int64_t at = call.sizes.k_at(sequence, j, key_head);
    std::fill_n(call.args.grad_k.data<float>() + at, call.sizes.width, 0.0F);
    std::fill_n(call.args.grad_v.data<float>() + at, call.sizes.width, 0.0F);
  }
}

KeyRange key_tile(const AttentionSizes& sizes, std::int64_t tile) {
  return {tile * kKeyTile, std::min((tile + 1) * kKeyTile, sizes.keys)};
}

KeyRange tiles_seen(const QueryTile& queries) {
  return {queries.seen.begin / kKeyTile, (queries.seen.end + kKeyTile - 1) / kKeyTile};
}

/// Rows of the queries after this tile, and of grad_q of this one.
void prefetch_queries(const Backward& call, const QueryTile& queries) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t at = sizes.q_at(queries.sequence, queries.first_query, queries.head);
  prefetch_rows(call.args.grad_q.data<float>() + at, sizes.q_stride(), queries.num_queries,
                sizes.width);
  const std::int64_t next = queries.first_query + kQueryTile;
  const std::int64_t next_at = sizes.q_at(queries.sequence, next, queries.head);
  for (const ConstTensorView& view : {call.args.q, call.args.out, call.args.grad_out}) {
    prefetch_rows(view.data<float>() + next_at, sizes.q_stride(),
                  std::min(kQueryTile, sizes.queries - next), sizes.width);
  }
}

void prefetch_keys(const Backward& call, const ConstTensorView& k, const ConstTensorView& v,
                   const QueryTile& queries, KeyRange keys) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t at = sizes.k_at(queries.sequence, keys.begin, queries.head / sizes.group());
  for (const ConstTensorView& view : {k, v}) {
    prefetch_rows(view.data<float>() + at, sizes.k_stride(), keys.end - keys.begin, sizes.width);
  }
}

/// Everything of one sequence and key head.
void whole_head(const Backward& call, std::int64_t sequence, std::int64_t key_head,
                const Buffers& buffers) {
  const AttentionSizes& sizes = call.sizes;
  const AttentionBackwardArgs& args = call.args;
  clear_keys(call, sequence, key_head, {0, sizes.keys});
  for (std::int64_t h = 0; h < sizes.group(); ++h) {
    for (std::int64_t tile = 0; tile < sizes.query_tiles(); ++tile) {
      QueryTile queries = tile_of(sizes, sequence, key_head * sizes.group() + h, tile);
      load_queries(call, queries, buffers);
      const KeyRange tiles = tiles_seen(queries);
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
        const KeyRange keys = key_tile(sizes, t);
        prefetch_keys(call, args.grad_k, args.grad_v, queries, keys);
        const Cells cells = form_scores(call, queries, keys, buffers);
        if (t + 1 < tiles.end) {
          prefetch_keys(call, args.k, args.v, queries, key_tile(sizes, t + 1));
        } else {
          prefetch_queries(call, queries);
        }
        add_to_keys(call, queries, keys, cells, buffers);
        add_to_queries(call, queries, keys, cells, buffers);
      }
      write_grad_q(call, queries, buffers);
    }
  }
}

/// grad_k and grad_v of one tile of keys, in the order of whole_head.
void keys_only(const Backward& call, std::int64_t sequence, std::int64_t key_head,
               std::int64_t tile, const Buffers& buffers) {
  const AttentionSizes& sizes = call.sizes;
  const KeyRange keys = key_tile(sizes, tile);
  clear_keys(call, sequence, key_head, keys);
  for (std::int64_t h = 0; h < sizes.group(); ++h) {
    for (std::int64_t t = 0; t < sizes.query_tiles(); ++t) {
      QueryTile queries = tile_of(sizes, sequence, key_head * sizes.group() + h, t);
      if (queries.seen.end <= keys.begin || keys.end <= queries.seen.begin) continue;
      load_queries(call, queries, buffers);
      const Cells cells = form_scores(call, queries, keys, buffers);
      add_to_keys(call, queries, keys, cells, buffers);
    }
  }
}

/// grad_q of one tile of queries, in the order of whole_head.
void queries_only(const Backward& call, std::int64_t sequence, std::int64_t head, std::int64_t tile,
                  const Buffers& buffers) {
  QueryTile queries = tile_of(call.sizes, sequence, head, tile);
  load_queries(call, queries, buffers);
  const KeyRange tiles = tiles_seen(queries);
  for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
    const KeyRange keys = key_tile(call.sizes, t);
    const Cells cells = form_scores(call, queries, keys, buffers);
    add_to_queries(call, queries, keys, cells, buffers);
  }
  write_grad_q(call, queries, buffers);
}

}  // namespace

void attention_backward(const AttentionBackwardArgs& args, TensorView scratch,
                        const ExecContext& ctx) {
  const Backward call{args, AttentionSizes(args)};
  const AttentionSizes& sizes = call.sizes;
  if (sizes.queries == 0) return;
  ThreadPool& pool = ctx.device.pool();
  const std::int64_t threads = pool.num_threads();
  const auto buffers = [&](int thread_idx) {
    return Buffers(thread_scratch(scratch, pool.num_threads(), thread_idx), sizes.width);
  };
  // In one pass, five products for each pair of tiles; in two passes, which cut finer, seven. Both
  // sum in the same order, so the choice does not show in the bits.
  const std::int64_t whole_items = sizes.num_sequences * sizes.key_heads;
  if ((whole_items + threads - 1) / threads * threads * 5 <= whole_items * 7) {
    pool.for_items(whole_items, [&](std::int64_t item, int thread_idx) {
      whole_head(call, item / sizes.key_heads, item % sizes.key_heads, buffers(thread_idx));
    });
    return;
  }
  const std::int64_t key_tiles = (sizes.keys + kKeyTile - 1) / kKeyTile;
  const std::int64_t key_items = whole_items * key_tiles;
  const std::int64_t query_tiles = sizes.query_tiles();
  pool.for_items(key_items + sizes.num_sequences * sizes.heads * query_tiles, [&](std::int64_t item,
                                                                                  int thread_idx) {
    if (item < key_items) {
      const std::int64_t head = item / key_tiles;
      return keys_only(call, head / sizes.key_heads, head % sizes.key_heads, item % key_tiles,
                       buffers(thread_idx));
    }
    const std::int64_t head = (item - key_items) / query_tiles;
    queries_only(call, head / sizes.heads, head % sizes.heads,
                 query_tiles - 1 - (item - key_items) % query_tiles, buffers(thread_idx));
  });
}

}  // namespace ulmus::ops::cpu
