#include "ulmus/ops/grouped_matmul.h"

#include <algorithm>
#include <atomic>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/gemm.h"

namespace ulmus::ops::cpu {

namespace {

/// Work items that each thread should find, so that none waits long for the last one.
constexpr std::int64_t kItemsPerThread = 4;
constexpr std::int64_t kMinTileRows = 48;
constexpr std::int64_t kMaxTileRows = 256;
constexpr std::int64_t kRowGrain = 12;
constexpr std::int64_t kMinTileSide = 64;
constexpr std::int64_t kSideGrain = 32;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How the work is cut: every expert into equal tiles, of its rows (kNT, kNN) or of the longer side
/// of its output (kTN), more of them the more rows it has. Tiles follow from the counts and the
/// number of threads, never from which thread comes first.
struct Plan {
  const GroupedMatmulArgs& args;
  const std::int32_t* expert_begin;
  std::int64_t num_experts;
  std::int64_t used_rows;
  std::int64_t target_items;

  std::int64_t num_tiles(std::int64_t rows) const {
    if (rows == 0) return 0;
    const std::int64_t fair = ceil_div(rows * target_items, used_rows);
    if (args.form == MatmulForm::kTN) {
      return std::min(fair, ceil_div(std::max(args.out.dim(1), args.out.dim(2)), kMinTileSide));
    }
    return std::max(ceil_div(rows, kMaxTileRows), std::min(fair, ceil_div(rows, kMinTileRows)));
  }
};

/// The product of one expert, by GroupedMatmulArgs.
Gemm expert_product(const Plan& plan, std::int64_t expert) {
  const GroupedMatmulArgs& args = plan.args;
  const std::int64_t begin = plan.expert_begin[expert];
  const std::int64_t rows = plan.expert_begin[expert + 1] - begin;
  const std::int64_t width = args.rows.dim(1);
  Gemm g{.form = args.form};
  if (args.form == MatmulForm::kTN) {
    g.m = args.out.dim(1);
    g.n = args.out.dim(2);
    g.k = rows;
    g.a = args.left.data<float>() + begin * g.m;
    g.a_stride = g.m;
    g.b = args.rows.data<float>() + begin * width;
    g.b_stride = width;
    g.c = args.out.data<float>() + expert * g.m * g.n;
    g.accumulate = Accumulate::kAdd;
  } else {
    g.m = rows;
    g.n = args.out.dim(1);
    g.k = width;
    g.a = args.rows.data<float>() + begin * width;
    g.a_stride = width;
    g.b = args.weight.data<float>() + expert * g.n * g.k;
    g.b_stride = args.form == MatmulForm::kNT ? g.k : g.n;
    g.c = args.out.data<float>() + begin * g.n;
  }
  g.c_stride = g.n;
  return g;
}

void run_tile(const Gemm& whole, std::int64_t tile, std::int64_t num_tiles) {
  ULMUS_DCHECK(num_tiles > 0 && tile < num_tiles, "tile ", tile, " of ", num_tiles);
  const bool by_columns = whole.form == MatmulForm::kTN && whole.n >= whole.m;
  const std::int64_t size = by_columns ? whole.n : whole.m;
  const std::int64_t grain = whole.form == MatmulForm::kTN ? kSideGrain : kRowGrain;
  const std::int64_t units = ceil_div(size, grain);
  const std::int64_t begin = units * tile / num_tiles * grain;
  const std::int64_t end = std::min(size, units * (tile + 1) / num_tiles * grain);
  gemm(by_columns ? part_of(whole, 0, whole.m, begin, end)
                  : part_of(whole, begin, end, 0, whole.n));
}

}  // namespace

void grouped_matmul(const GroupedMatmulArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  ThreadPool& pool = ctx.device.pool();
  const std::int64_t num_experts = args.expert_begin.dim(0) - 1;
  const std::int32_t* const expert_begin = args.expert_begin.data<std::int32_t>();
  const std::int64_t used_rows = expert_begin[num_experts];
  if (used_rows == 0) return;
  const Plan plan{args, expert_begin, num_experts, used_rows, kItemsPerThread * pool.num_threads()};
  std::atomic<std::int64_t> next{0};
  pool.run([&](int) {
    std::int64_t expert = -1;
    std::int64_t first_item = 0;  // of this expert
    std::int64_t num_tiles = 0;
    for (;;) {
      const std::int64_t item = next.fetch_add(1, std::memory_order_relaxed);
      while (item >= first_item + num_tiles) {
        if (++expert == num_experts) return;
        first_item += num_tiles;
        num_tiles = plan.num_tiles(expert_begin[expert + 1] - expert_begin[expert]);
      }
      run_tile(expert_product(plan, expert), item - first_item, num_tiles);
    }
  });
}

}  // namespace ulmus::ops::cpu
