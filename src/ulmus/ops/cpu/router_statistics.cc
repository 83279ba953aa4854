#include "ulmus/ops/router.h"

#include <algorithm>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/router_row.h"
#include "ulmus/ops/front_door.h"

namespace ulmus::ops::cpu {

namespace {

/// Sums of one group, or of the part of it that one thread saw.
struct Sums {
  double* scores;        // [E]
  std::int64_t* counts;  // [E]
};

struct Inputs {
  const float* logits;
  const float* lse;
  const std::int32_t* ids;
  std::int64_t num_experts;
  std::int64_t top_k;
  RouterGate gate;
};

void clear(const Sums& sums, std::int64_t num_experts) {
  for (std::int64_t e = 0; e < num_experts; ++e) {
    sums.scores[e] = 0.0;
    sums.counts[e] = 0;
  }
}

[[gnu::always_inline]] inline void add_scores(double* sums, F32x8 scores, std::int64_t count) {
  for (std::int64_t lane = 0; lane < count; ++lane) {
    sums[lane] += static_cast<double>(scores[lane]);
  }
}

[[gnu::always_inline]] inline void add_eight_scores(double* sums, F32x8 scores) {
  F64x4 low;
  F64x4 high;
  std::memcpy(&low, sums, sizeof(low));
  std::memcpy(&high, sums + 4, sizeof(high));
  low += widen(low_half(scores));
  high += widen(high_half(scores));
  std::memcpy(sums, &low, sizeof(low));
  std::memcpy(sums + 4, &high, sizeof(high));
}

[[gnu::always_inline]] inline void add_row(double* sums, const float* logits, std::int64_t width,
                                           const Scores& scores) {
  std::int64_t e = 0;
  for (; e + kLanes <= width; e += kLanes)
    add_eight_scores(sums + e, scores(load(logits + e)));
  if (e < width) add_scores(sums + e, scores(load_first(logits + e, width - e)), width - e);
}

/// Tokens [begin, end) of one group; returns their sum of lse^2.
double add_tokens(const Sums& sums, const Inputs& in, std::int64_t begin, std::int64_t end) {
  double z_sum = 0.0;
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int32_t* ids = in.ids + n * in.top_k;
    if (ids[0] < 0) continue;  // padding
    for (std::int64_t k = 0; k < in.top_k; ++k) {
      if (ids[k] >= 0) ++sums.counts[ids[k]];
    }
    const float* logits = in.logits + n * in.num_experts;
    const float lse = in.lse[n];
    const Scores scores = in.gate == RouterGate::kSoftmax
                              ? Scores{true, lse, 1.0F}
                              : normalised_scores(logits, in.num_experts, in.gate);
    add_row(sums.scores, logits, in.num_experts, scores);
    z_sum += static_cast<double>(lse) * static_cast<double>(lse);
  }
  return z_sum;
}

/// A thread's own sums: those of the group that another thread began, and its part of z_sum.
struct Partial {
  Sums lead;
  double* z_sum;
};

class Partials {
 public:
  Partials(TensorView scratch, std::int64_t num_experts)
      : base_(static_cast<std::byte*>(scratch.raw_data())),
        num_experts_(num_experts),
        counts_begin_(in_cache_lines((num_experts + 1) * size_of(DType::kF64))),
        stride_bytes_(counts_begin_ + in_cache_lines(num_experts * size_of(DType::kI64))) {}

  Partial of(int thread_idx) const {
    std::byte* begin = base_ + thread_idx * stride_bytes_;
    auto* scores = reinterpret_cast<double*>(begin);
    auto* counts = reinterpret_cast<std::int64_t*>(begin + counts_begin_);
    return {{scores, counts}, scores + num_experts_};
  }

 private:
  std::byte* base_;
  std::int64_t num_experts_;
  std::int64_t counts_begin_;
  std::int64_t stride_bytes_;
};

struct Outputs {
  double* scores;        // [B, E]
  std::int64_t* counts;  // [B, E]
  std::int64_t num_groups;
  std::int64_t num_experts;

  Sums of(std::int64_t group) const {
    return {scores + group * num_experts, counts + group * num_experts};
  }
};

/// How the tokens are cut into groups and into ranges of threads.
struct Cuts {
  std::int64_t num_tokens;
  std::int64_t group_tokens;
  int num_threads;

  std::int64_t first_token(int thread_idx) const { return num_tokens * thread_idx / num_threads; }
  bool begins_group(std::int64_t token) const { return token % group_tokens == 0; }
};

/// One thread's range, group after group.
void sum_range(const Outputs& out, const Partial& own, const Inputs& in, const Cuts& cuts,
               int thread_idx) {
  *own.z_sum = 0.0;
  std::int64_t n = cuts.first_token(thread_idx);
  const std::int64_t end = cuts.first_token(thread_idx + 1);
  while (n < end) {
    const std::int64_t group = n / cuts.group_tokens;
    const Sums sums = cuts.begins_group(n) ? out.of(group) : own.lead;
    clear(sums, in.num_experts);
    const std::int64_t stop = std::min((group + 1) * cuts.group_tokens, end);
    *own.z_sum += add_tokens(sums, in, n, stop);
    n = stop;
  }
}

/// Adds, in thread order, what threads saw of groups that others began; returns the sum of lse^2.
double add_partials(const Outputs& out, const Partials& partials, const Cuts& cuts) {
  double z_sum = 0.0;
  for (int thread_idx = 0; thread_idx < cuts.num_threads; ++thread_idx) {
    const Partial part = partials.of(thread_idx);
    z_sum += *part.z_sum;
    const std::int64_t begin = cuts.first_token(thread_idx);
    if (begin == cuts.first_token(thread_idx + 1) || cuts.begins_group(begin)) continue;
    const Sums sums = out.of(begin / cuts.group_tokens);
    for (std::int64_t e = 0; e < out.num_experts; ++e) {
      sums.scores[e] += part.lead.scores[e];
      sums.counts[e] += part.lead.counts[e];
    }
  }
  return z_sum;
}

void add_groups(std::int64_t* counts_total, double* score_total, const Outputs& out) {
  for (std::int64_t group = 0; group < out.num_groups; ++group) {
    const Sums sums = out.of(group);
    for (std::int64_t e = 0; e < out.num_experts; ++e) {
      counts_total[e] += sums.counts[e];
      score_total[e] += sums.scores[e];
    }
  }
}

}  // namespace

/// Threads own ranges of tokens. A group that begins in a range is summed in place; the part of a
/// group that began in an earlier range goes to scratch and is added afterwards.
void router_statistics(const RouterStatisticsArgs& args, TensorView scratch,
                       const ExecContext& ctx) {
  ThreadPool& pool = ctx.device.pool();
  const Inputs in{.logits = args.logits.data<float>(),
                  .lse = args.lse.data<float>(),
                  .ids = args.ids.data<std::int32_t>(),
                  .num_experts = args.logits.dim(1),
                  .top_k = args.ids.dim(1),
                  .gate = args.gate};
  const Outputs out{.scores = args.score_sums.data<double>(),
                    .counts = args.counts.data<std::int64_t>(),
                    .num_groups = args.counts.dim(0),
                    .num_experts = in.num_experts};
  if (args.logits.dim(0) == 0) {
    for (std::int64_t group = 0; group < out.num_groups; ++group) {
      clear(out.of(group), out.num_experts);
    }
    return;
  }
  const Cuts cuts{.num_tokens = args.logits.dim(0),
                  .group_tokens = args.logits.dim(0) / out.num_groups,
                  .num_threads = pool.num_threads()};
  const Partials partials(scratch, in.num_experts);
  pool.run([&](int thread_idx) { sum_range(out, partials.of(thread_idx), in, cuts, thread_idx); });
  *args.z_sum.data<double>() += add_partials(out, partials, cuts);
  add_groups(args.counts_total.data<std::int64_t>(), args.score_total.data<double>(), out);
}

}  // namespace ulmus::ops::cpu
