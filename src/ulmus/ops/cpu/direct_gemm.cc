#include "ulmus/ops/cpu/direct_gemm.h"

#include <algorithm>
#include <array>

#include "ulmus/ops/cpu/simd.h"
#include "ulmus/ops/cpu/strips.h"

namespace ulmus::ops::cpu {

namespace {

/// Rows of a register tile of strips: 6 rows of two vectors are 12 running sums, which with the two
/// vectors of b and one of a fill the 16 registers.
constexpr int kMaxTileRows = 6;
/// An output that is added to is asked for two tiles before it is read.
constexpr std::int64_t kRowsAhead = std::int64_t{2} * kMaxTileRows;
/// A packed panel: 128 terms of two strips are half of a first-level cache.
constexpr std::int64_t kPanelTerms = 128;
constexpr std::int64_t kPanelColumns = 2 * kStripColumns;
/// A b of 256 KiB stays in the second-level cache.
constexpr std::int64_t kResidentElements = 65536;
/// Rows of a that stay in the second-level cache while all panels pass by.
constexpr std::int64_t kBlockRows = 288;
/// Terms of one pass where b is not packed: as many rows of b are read side by side.
constexpr std::int64_t kInPlaceTerms = 64;

struct Tile {
  float* c;
  std::int64_t c_stride;
  const float* a;
  std::int64_t a_row;
  std::int64_t a_k;
  const float* b;
  std::int64_t b_stride;
  std::int64_t k;
  std::int64_t columns;  ///< written; what lies in b beyond them is computed and dropped
  bool add;
};

/// Writes a tile of which some columns do not exist.
[[gnu::noinline]] void write_part(const Tile& t, const F32x8* sums, int num_rows, int num_vectors) {
  for (int i = 0; i < num_rows; ++i) {
    for (int v = 0; v < num_vectors; ++v) {
      float* to = t.c + i * t.c_stride + v * kLanes;
      const std::int64_t left = std::clamp<std::int64_t>(t.columns - v * kLanes, 0, kLanes);
      const F32x8 sum = sums[i * num_vectors + v];
      store_first(to, t.add ? load_first(to, left) + sum : sum, left);
    }
  }
}

template <int kRows, int kVectors>
[[gnu::always_inline]] inline void write_tile(const Tile& t, const F32x8 (&sums)[kRows][kVectors]) {
  const auto each = [&](const auto& write) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v)
        write(i, v, t.c + i * t.c_stride + v * kLanes);
    }
  };
  if (t.columns < kVectors * kLanes) {
    F32x8 copies[kRows * kVectors];
    each([&](int i, int v, float*) { copies[i * kVectors + v] = sums[i][v]; });
    write_part(t, copies, kRows, kVectors);
  } else if (t.add) {
    each([&](int i, int v, float* to) { store(to, load(to) + sums[i][v]); });
  } else {
    each([&](int i, int v, float* to) { store(to, sums[i][v]); });
  }
}

/// kRows x kVectors running sums in registers; kUnit: a's rows are neighbours in memory.
template <int kRows, int kVectors, bool kUnit>
void tile_product(const Tile& t) {
  F32x8 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      sums[i][v] = splat(0.0F);
  }
  const float* a = t.a;
  const float* b = t.b;
  const std::int64_t a_row = kUnit ? 1 : t.a_row;
  for (std::int64_t k = 0; k < t.k; ++k) {
    F32x8 b_row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      b_row[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const F32x8 a_ik = splat(a[i * a_row]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v)
        sums[i][v] += a_ik * b_row[v];
    }
    a += t.a_k;
    b += t.b_stride;
  }
  write_tile(t, sums);
}

template <int kRows, int kVectors>
void tile_product(const Tile& tile) {
  if (tile.a_row == 1) {
    tile_product<kRows, kVectors, true>(tile);
  } else {
    tile_product<kRows, kVectors, false>(tile);
  }
}

using TileFunction = void (*)(const Tile&);

template <int kVectors>
constexpr std::array<TileFunction, kMaxTileRows + 1> kTilesByRows = {nullptr,
                                                                     tile_product<1, kVectors>,
                                                                     tile_product<2, kVectors>,
                                                                     tile_product<3, kVectors>,
                                                                     tile_product<4, kVectors>,
                                                                     tile_product<5, kVectors>,
                                                                     tile_product<6, kVectors>};

/// Rows that will be needed next, asked for a few at a time while tiles are computed: all at once
/// they would hold up the loads of the tile.
class Ahead {
 public:
  Ahead() = default;
  /// `num_rows` rows of `width` floats, within `num_steps` steps.
  Ahead(const float* rows, std::int64_t stride, std::int64_t num_rows, std::int64_t width,
        std::int64_t num_steps)
      : row_(rows),
        stride_(stride),
        rows_left_(num_rows),
        width_(width),
        rows_per_step_((num_rows + num_steps - 1) / num_steps) {}
  void step() {
    const std::int64_t here = std::min(rows_per_step_, rows_left_);
    if (here <= 0) return;
    prefetch_rows(row_, stride_, here, width_);
    row_ += here * stride_;
    rows_left_ -= here;
  }

 private:
  const float* row_ = nullptr;
  std::int64_t stride_ = 0;
  std::int64_t rows_left_ = 0;
  std::int64_t width_ = 0;
  std::int64_t rows_per_step_ = 0;
};

std::int64_t num_row_tiles(std::int64_t m) { return (m + kMaxTileRows - 1) / kMaxTileRows; }

/// All rows against one strip, in tiles of nearly equal height.
void strip_rows(Tile tile, std::int64_t m, Ahead& ahead) {
  const auto& tiles = tile.columns > kLanes ? kTilesByRows<2> : kTilesByRows<1>;
  const std::int64_t num_tiles = num_row_tiles(m);
  const float* const a = tile.a;
  float* const c = tile.c;
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < num_tiles; ++i) {
    const std::int64_t end = m * (i + 1) / num_tiles;
    tile.a = a + row * tile.a_row;
    tile.c = c + row * tile.c_stride;
    ahead.step();
    if (tile.add) {
      const std::int64_t next = row + kRowsAhead;
      prefetch_rows(c + next * tile.c_stride, tile.c_stride, std::min(end - row, m - next),
                    kStripColumns);
    }
    tiles[static_cast<std::size_t>(end - row)](tile);
    row = end;
  }
}

/// Columns that one tile of few rows takes at once, wider than a strip so that as many sums are in
/// flight as the latency of a fused multiply-add asks for.
struct WideTile {
  TileFunction function;
  std::int64_t columns;
};
WideTile wide_tile(std::int64_t rows) {
  switch (rows) {
    case 1:
      return {tile_product<1, 4>, 4 * kLanes};
    case 2:
      return {tile_product<2, 4>, 4 * kLanes};
    case 3:
      return {tile_product<3, 4>, 4 * kLanes};
    default:
      return {kTilesByRows<2>[static_cast<std::size_t>(rows)], kStripColumns};
  }
}

Tile first_tile(const Gemm& g) {
  return {.c = g.c,
          .c_stride = g.c_stride,
          .a = g.a,
          .a_row = g.form == MatmulForm::kTN ? 1 : g.a_stride,
          .a_k = g.form == MatmulForm::kTN ? g.a_stride : 1,
          .b = g.b,
          .b_stride = g.b_stride,
          .k = g.k,
          .columns = kStripColumns,
          .add = g.accumulate == Accumulate::kAdd};
}

/// The part of b that the panel from `column` on will be packed from.
Ahead next_panel(const Gemm& g, std::int64_t k, const float* b, std::int64_t column) {
  const std::int64_t columns = std::min(kPanelColumns, g.n - column);
  if (columns <= 0) return {};
  const std::int64_t num_steps = num_strips(kPanelColumns) * num_row_tiles(g.m);
  if (g.form == MatmulForm::kNT) {
    return {b + column * g.b_stride, g.b_stride, columns, k, num_steps};
  }
  return {b + column, g.b_stride, k, columns, num_steps};
}

/// Columns from `column` on through a packed panel.
void rest_by_panels(const Gemm& g, Tile tile, std::int64_t column) {
  alignas(64) std::array<float, kPanelTerms * kPanelColumns> panel;
  const float* const b = tile.b;
  tile.b_stride = kStripColumns;
  for (; column < g.n; column += kPanelColumns) {
    const std::int64_t panel_end = std::min(column + kPanelColumns, g.n);
    if (g.form == MatmulForm::kNT) {
      pack_strips_transposed(panel.data(), b + column * g.b_stride, g.b_stride, tile.k,
                             panel_end - column);
    } else {
      pack_strips(panel.data(), b + column, g.b_stride, tile.k, panel_end - column);
    }
    Ahead ahead = next_panel(g, tile.k, b, panel_end);
    tile.b = panel.data();
    for (std::int64_t begin = column; begin < panel_end; begin += kStripColumns) {
      tile.columns = std::min(kStripColumns, panel_end - begin);
      tile.c = g.c + begin;
      strip_rows(tile, g.m, ahead);
      tile.b += tile.k * kStripColumns;
    }
  }
}

/// Vectors run over n. Blocks of terms come first, so that b is walked through nearly
/// in the order of memory.
void gemm_by_strips(const Gemm& g) {
  const Tile first = first_tile(g);
  const WideTile wide = wide_tile(std::min<std::int64_t>(g.m, kMaxTileRows));
  const bool in_place =
      g.form != MatmulForm::kNT && g.m <= kMaxTileRows && g.k * g.n <= kResidentElements;
  const std::int64_t block = in_place ? kInPlaceTerms : kPanelTerms;
  for (std::int64_t term = 0; term < g.k; term += block) {
    Tile tile = first;
    tile.k = std::min(block, g.k - term);
    tile.a += term * tile.a_k;
    tile.b += g.form == MatmulForm::kNT ? term : term * tile.b_stride;
    tile.add = term > 0 || first.add;
    std::int64_t column = 0;
    if (in_place) {
      tile.columns = wide.columns;
      for (const Tile whole = tile; column + wide.columns <= g.n; column += wide.columns) {
        tile.b = whole.b + column;
        tile.c = whole.c + column;
        wide.function(tile);
      }
      tile.b = first.b + term * first.b_stride;
    }
    rest_by_panels(g, tile, column);
  }
}

/// The sums of four vectors, each ((x0 + x4) + (x2 + x6)) + ((x1 + x5) + (x3 + x7)) as in
/// horizontal_sum.
F32x4 four_sums(F32x8 x0, F32x8 x1, F32x8 x2, F32x8 x3) {
  const F32x4 a = low_half(x0) + high_half(x0);
  const F32x4 b = low_half(x1) + high_half(x1);
  const F32x4 c = low_half(x2) + high_half(x2);
  const F32x4 d = low_half(x3) + high_half(x3);
  const F32x4 ab =
      __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const F32x4 cd =
      __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/// kNT with few rows on one side: turning the other around would cost more than it saves.
constexpr std::int64_t kDotRows = 16;
constexpr int kMaxDotRows = 3;
constexpr int kDotColumns = 4;

/// kRows x kColumns scalar products along k: vectors run over k.
template <int kRows, int kColumns>
void dot_tile(const Tile& t) {
  F32x8 sums[kRows][kDotColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j)
      sums[i][j] = splat(0.0F);
  }
  const auto step = [&](std::int64_t k, const auto& load_from) {
    F32x8 a[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i)
      a[i] = load_from(t.a + i * t.a_row + k);
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      const F32x8 b = load_from(t.b + j * t.b_stride + k);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i)
        sums[i][j] += a[i] * b;
    }
  };
  const std::int64_t whole = t.k / kLanes * kLanes;
  for (std::int64_t k = 0; k < whole; k += kLanes) {
    step(k, [](const float* from) { return load(from); });
  }
  if (whole < t.k) {
    step(whole, [&](const float* from) { return load_first(from, t.k - whole); });
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    const F32x4 row = four_sums(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    float* c = t.c + i * t.c_stride;
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j)
      c[j] = t.add ? c[j] + row[j] : row[j];
  }
}

template <int kRows>
constexpr std::array<TileFunction, kDotColumns + 1> kDotTiles = {
    nullptr, dot_tile<kRows, 1>, dot_tile<kRows, 2>, dot_tile<kRows, 3>, dot_tile<kRows, 4>};

TileFunction dot_tile_for(std::int64_t rows, std::int64_t columns) {
  const auto index = static_cast<std::size_t>(columns);
  if (rows == 1) return kDotTiles<1>[index];
  if (rows == 2) return kDotTiles<2>[index];
  return kDotTiles<3>[index];
}

/// kNT: both operands run along k. The smaller one is passed over again and again, so that it stays
/// in the caches; of the larger one a few rows are held.
void gemm_by_dots(const Gemm& g) {
  Tile tile = first_tile(g);
  const std::int64_t row_tiles = (g.m + kMaxDotRows - 1) / kMaxDotRows;
  const std::int64_t column_tiles = (g.n + kDotColumns - 1) / kDotColumns;
  const auto run_tile = [&](std::int64_t row_tile, std::int64_t column_tile) {
    const std::int64_t row = g.m * row_tile / row_tiles;
    const std::int64_t row_end = g.m * (row_tile + 1) / row_tiles;
    const std::int64_t column = column_tile * kDotColumns;
    tile.a = g.a + row * g.a_stride;
    tile.b = g.b + column * g.b_stride;
    tile.c = g.c + row * g.c_stride + column;
    dot_tile_for(row_end - row, std::min<std::int64_t>(kDotColumns, g.n - column))(tile);
  };
  if (g.m <= g.n) {
    for (std::int64_t j = 0; j < column_tiles; ++j) {
      for (std::int64_t i = 0; i < row_tiles; ++i)
        run_tile(i, j);
    }
  } else {
    for (std::int64_t i = 0; i < row_tiles; ++i) {
      for (std::int64_t j = 0; j < column_tiles; ++j)
        run_tile(i, j);
    }
  }
}

}  // namespace

void strip_product(const StripProduct& product) {
  Ahead nothing;
  strip_rows({.c = product.c,
              .c_stride = product.c_stride,
              .a = product.a,
              .a_row = product.a_row,
              .a_k = product.a_k,
              .b = product.b,
              .b_stride = product.b_stride,
              .k = product.k,
              .columns = product.columns,
              .add = product.accumulate == Accumulate::kAdd},
             product.m, nothing);
}

void direct_gemm(const Gemm& product) {
  if (product.m == 0 || product.n == 0) return;
  if (product.k == 0) return clear_empty_product(product);
  if (product.form == MatmulForm::kNT && std::min(product.m, product.n) <= kDotRows) {
    return gemm_by_dots(product);
  }
  const std::int64_t num_blocks = (product.m + kBlockRows - 1) / kBlockRows;
  for (std::int64_t i = 0; i < num_blocks; ++i) {
    gemm_by_strips(part_of(product, product.m * i / num_blocks, product.m * (i + 1) / num_blocks, 0,
                           product.n));
  }
}

}  // namespace ulmus::ops::cpu
