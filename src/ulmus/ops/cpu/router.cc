#include "ulmus/ops/router.h"

#include <cmath>
#include <limits>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/router_row.h"
#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

namespace {

constexpr std::int64_t kBufferedExperts = 1024;  // keys kept on the stack; more are formed anew
constexpr std::int32_t kLeastKey = std::numeric_limits<std::int32_t>::min();

/// Integers in the order of the floats, all above kLeastKey; NaN below -infinity, -0 equal to 0.
[[gnu::always_inline]] inline I32x8 order_keys(F32x8 x) {
  const I32x8 bits = reinterpret_cast<I32x8>(x + 0.0F);
  const I32x8 keys = bits ^ ((bits >> 31) & std::numeric_limits<std::int32_t>::max());
  return x == x ? keys : I32x8{} + (kLeastKey + 1);
}

/// What a token's experts are ordered by: its logits, or scores with a bias.
struct Candidates {
  const float* logits;
  const float* bias;  ///< nullptr: logits are compared
  std::int64_t num_experts;
  Scores scores;  ///< read with a bias only

  /// Eight keys from expert e on; kLeastKey beyond the last expert.
  [[gnu::always_inline]] inline I32x8 keys(std::int64_t e) const {
    const std::int64_t count = lanes_from(e, num_experts);
    F32x8 x = load_row(logits + e, count);
    if (bias != nullptr) x = scores(x) + load_row(bias + e, count);
    I32x8 keys = order_keys(x);
    for (std::int64_t lane = count; lane < kLanes; ++lane)
      keys[lane] = kLeastKey;
    return keys;
  }
};

struct Candidate {
  std::int32_t key;
  std::int32_t id;
};

/// The best candidate that ranks after `last`: the largest key, among equal ones the lowest index.
/// Each lane keeps its own best, then the lanes are compared.
template <class Keys>
[[gnu::always_inline]] inline Candidate next_best(Candidate last, std::int64_t num_experts,
                                                  Keys keys_at) {
  I32x8 best = I32x8{} + kLeastKey;
  I32x8 best_ids{};
  I32x8 ids = {0, 1, 2, 3, 4, 5, 6, 7};
  for (std::int64_t e = 0; e < num_experts; e += kLanes) {
    const I32x8 keys = keys_at(e);
    const I32x8 limit = last.key + (ids <= last.id);  // a true comparison is -1
    const I32x8 better = (keys > best) & (keys <= limit);
    best = better ? keys : best;
    best_ids = better ? ids : best_ids;
    ids += static_cast<std::int32_t>(kLanes);
  }
  const std::int32_t key = horizontal_max(best);
  return {key, -horizontal_max(best == key ? -best_ids : I32x8{} + kLeastKey)};
}

template <class Keys>
[[gnu::always_inline]] inline void select_best(std::int32_t* ids, std::int64_t top_k,
                                               std::int64_t num_experts, Keys keys_at) {
  Candidate last{std::numeric_limits<std::int32_t>::max(), -1};
  for (std::int64_t k = 0; k < top_k; ++k) {
    last = next_best(last, num_experts, keys_at);
    ids[k] = last.id;
  }
}

void select_row(std::int32_t* ids, std::int64_t top_k, const Candidates& candidates) {
  const std::int64_t num_experts = candidates.num_experts;
  if (num_experts > kBufferedExperts) {
    select_best(ids, top_k, num_experts, [&](std::int64_t e) { return candidates.keys(e); });
    return;
  }
  I32x8 keys[kBufferedExperts / kLanes];
  for (std::int64_t e = 0; e < num_experts; e += kLanes)
    keys[e / kLanes] = candidates.keys(e);
  select_best(ids, top_k, num_experts, [&](std::int64_t e) { return keys[e / kLanes]; });
}

/// How weights hang on the selected scores: w = factor * s, divided by the sum of the scores when
/// they are normalised.
float factor_of(const RouterRule& rule, std::int64_t top_k) {
  const double to_k = rule.weights == RouteWeights::kSumToK ? static_cast<double>(top_k) : 1.0;
  return static_cast<float>(rule.scale * to_k);
}

/// Lanes without an expert (id -1, or beyond the row) hold -infinity: score 0.
[[gnu::always_inline]] inline F32x8 selected_logits(const float* logits, const std::int32_t* ids,
                                                    std::int64_t count) {
  F32x8 x = splat(-std::numeric_limits<float>::infinity());
  for (std::int64_t lane = 0; lane < count; ++lane) {
    if (ids[lane] >= 0) x[lane] = logits[ids[lane]];
  }
  return x;
}

/// Scores of the selected experts as the weights need them: with the scale that makes them softmax
/// or sigmoid, or, when weights are normalised, the one that makes their sum 1.
[[gnu::always_inline]] inline Scores selected_scores(const float* logits, const std::int32_t* ids,
                                                     std::int64_t top_k, const RouterRule& rule,
                                                     const Scores& softmax) {
  if (rule.weights == RouteWeights::kRaw) {
    return rule.gate == RouterGate::kSoftmax ? softmax : Scores{false, 0.0F, 1.0F};
  }
  float max = kNoExpert;
  for (std::int64_t k = 0; k < top_k; ++k) {
    if (ids[k] >= 0 && logits[ids[k]] > max) max = logits[ids[k]];
  }
  Scores scores = relative_scores(rule.gate, max);
  float sum = 0.0F;
  for (std::int64_t k = 0; k < top_k; k += kLanes) {
    sum += horizontal_sum(scores(selected_logits(logits, ids + k, lanes_from(k, top_k))));
  }
  scores.scale = 1.0F / sum;
  return scores;
}

}  // namespace

void router_select(const RouterSelectArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  std::int32_t* ids = args.ids.data<std::int32_t>();
  const float* logits = args.logits.data<float>();
  const float* bias = args.bias.is_empty() ? nullptr : args.bias.data<float>();
  const std::uint8_t* valid = args.valid.data<std::uint8_t>();
  const std::int64_t num_experts = args.logits.dim(1);
  const std::int64_t top_k = args.ids.dim(1);
  const RouterGate gate = args.gate;
  ctx.device.pool().for_ranges(
      args.ids.dim(0), row_grain(4 * num_experts), [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t n = begin; n < end; ++n) {
          std::int32_t* row_ids = ids + n * top_k;
          if (valid[n] == 0) {
            for (std::int64_t k = 0; k < top_k; ++k)
              row_ids[k] = -1;
            continue;
          }
          Candidates candidates{logits + n * num_experts, bias, num_experts, {false, 0.0F, 1.0F}};
          if (bias != nullptr && gate == RouterGate::kSoftmax) {
            candidates.scores = normalised_scores(candidates.logits, num_experts, gate);
          }
          select_row(row_ids, top_k, candidates);
        }
      });
}

void router_weights(const RouterWeightsArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  float* weights = args.weights.data<float>();
  float* lse = args.lse.data<float>();
  const float* logits = args.logits.data<float>();
  const std::int32_t* ids = args.ids.data<std::int32_t>();
  const std::int64_t num_experts = args.logits.dim(1);
  const std::int64_t top_k = args.ids.dim(1);
  const RouterRule rule = args.rule;
  const float factor = factor_of(rule, top_k);
  ctx.device.pool().for_ranges(
      args.ids.dim(0), row_grain(2 * num_experts), [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t n = begin; n < end; ++n) {
          const float* row_logits = logits + n * num_experts;
          const std::int32_t* row_ids = ids + n * top_k;
          Scores softmax = relative_scores(RouterGate::kSoftmax, row_max(row_logits, num_experts));
          const float sum = softmax.sum(row_logits, num_experts);
          softmax.scale = 1.0F / sum;
          lse[n] = softmax.shift + std::log(sum);
          const Scores scores = selected_scores(row_logits, row_ids, top_k, rule, softmax);
          for (std::int64_t k = 0; k < top_k; k += kLanes) {
            const std::int64_t count = lanes_from(k, top_k);
            const F32x8 x = selected_logits(row_logits, row_ids + k, count);
            F32x8 w = factor * scores(x);
            for (std::int64_t lane = 0; lane < count; ++lane) {
              if (row_ids[k + lane] < 0) w[lane] = 0.0F;  // where no id is, sums may be 0 too
            }
            store_row(weights + n * top_k + k, w, count);
          }
        }
      });
}

namespace {

/// One token of router_backward. With p = softmax(logits), q the normalised scores, s' the selected
/// scores (divided by their sum when weights are) and c the weights' factor, everything by way of
/// the logarithm of a score, so that nothing is divided by a small one:
///
///   a_k    = c s'_k (g_k - mean),  mean = sum_j g_j s'_j when normalised, else 0
///   slope  = d log score / d own logit: 1 (softmax), 1 - sigmoid (sigmoid)
///   grad_e = slope_e ([e = id_k] a_k + q_e (balance_e - sum balance q)) + 2 z lse p_e
///            - p_e sum_k a_k (softmax only)
struct BackwardRow {
  float* grad_logits;
  const float* grad_weights;
  const float* balance;
  const float* logits;
  const std::int32_t* ids;
  std::int64_t num_experts;
  std::int64_t top_k;
  Scores softmax;
  float two_z_lse;
  RouterRule rule;
};

/// a_k = scores(logit_k) * (g_k - mean); `sum` = sum_k a_k.
struct SelectedGradient {
  Scores scores;
  float mean = 0.0F;
  float sum = 0.0F;
};

[[gnu::always_inline]] inline SelectedGradient selected_gradient(const BackwardRow& row) {
  SelectedGradient selected{selected_scores(row.logits, row.ids, row.top_k, row.rule, row.softmax)};
  float weighted = 0.0F;
  for (std::int64_t k = 0; k < row.top_k; k += kLanes) {
    const std::int64_t count = lanes_from(k, row.top_k);
    weighted += horizontal_sum(selected.scores(selected_logits(row.logits, row.ids + k, count)) *
                               load_row(row.grad_weights + k, count));
  }
  const float factor = factor_of(row.rule, row.top_k);
  selected.scores.scale *= factor;
  if (row.rule.weights == RouteWeights::kRaw) {
    selected.sum = factor * weighted;
  } else {
    selected.mean = weighted;  // sum_k s'_k = 1: the sum of a_k is 0
  }
  return selected;
}

void add_selected(const BackwardRow& row, const SelectedGradient& selected) {
  for (std::int64_t k = 0; k < row.top_k; k += kLanes) {
    const std::int64_t count = lanes_from(k, row.top_k);
    const F32x8 x = selected_logits(row.logits, row.ids + k, count);
    F32x8 grad = selected.scores(x) * (load_row(row.grad_weights + k, count) - selected.mean);
    if (row.rule.gate == RouterGate::kSigmoid) grad *= sigmoid(-x);
    for (std::int64_t lane = 0; lane < count; ++lane) {
      if (row.ids[k + lane] >= 0) row.grad_logits[row.ids[k + lane]] += grad[lane];
    }
  }
}

/// sum_e balance_e q_e
[[gnu::always_inline]] inline float balance_mean(const BackwardRow& row, const Scores& scores) {
  F32x8 sum{};
  for (std::int64_t e = 0; e < row.num_experts; e += kLanes) {
    const std::int64_t count = lanes_from(e, row.num_experts);
    sum += scores(load_row(row.logits + e, count, kNoExpert)) * load_row(row.balance + e, count);
  }
  return horizontal_sum(sum);
}

void backward_row(const BackwardRow& row) {
  const bool is_softmax = row.rule.gate == RouterGate::kSoftmax;
  const Scores scores =
      is_softmax ? row.softmax : normalised_scores(row.logits, row.num_experts, row.rule.gate);
  const SelectedGradient selected = selected_gradient(row);
  const float mean = balance_mean(row, scores) + (is_softmax ? selected.sum : 0.0F);
  for (std::int64_t e = 0; e < row.num_experts; e += kLanes) {
    const std::int64_t count = lanes_from(e, row.num_experts);
    const F32x8 x = load_row(row.logits + e, count, kNoExpert);
    const F32x8 p = row.softmax(x);
    const F32x8 pull = load_row(row.balance + e, count) - mean;
    const F32x8 grad = is_softmax ? p * (pull + row.two_z_lse)
                                  : scores(x) * pull * sigmoid(-x) + row.two_z_lse * p;
    store_row(row.grad_logits + e, grad, count);
  }
  add_selected(row, selected);
}

}  // namespace

void router_backward(const RouterBackwardArgs& args, TensorView /*scratch*/,
                     const ExecContext& ctx) {
  float* grad_logits = args.grad_logits.data<float>();
  const float* grad_weights = args.grad_weights.data<float>();
  const float* balance = args.balance.data<float>();
  const float* logits = args.logits.data<float>();
  const float* lse = args.lse.data<float>();
  const std::int32_t* ids = args.ids.data<std::int32_t>();
  const std::int64_t num_tokens = args.ids.dim(0);
  const std::int64_t num_experts = args.logits.dim(1);
  const std::int64_t top_k = args.ids.dim(1);
  const std::int64_t num_groups = args.balance.dim(0);
  const std::int64_t group_tokens = num_groups > 0 ? num_tokens / num_groups : 1;
  const RouterRule rule = args.rule;
  const auto two_z = static_cast<float>(2.0 * args.z_coefficient);
  ctx.device.pool().for_ranges(
      num_tokens, row_grain(2 * num_experts), [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t n = begin; n < end; ++n) {
          float* row_grad = grad_logits + n * num_experts;
          if (ids[n * top_k] < 0) {
            for (std::int64_t e = 0; e < num_experts; ++e)
              row_grad[e] = 0.0F;
            continue;
          }
          const BackwardRow row{.grad_logits = row_grad,
                                .grad_weights = grad_weights + n * top_k,
                                .balance = balance + n / group_tokens * num_experts,
                                .logits = logits + n * num_experts,
                                .ids = ids + n * top_k,
                                .num_experts = num_experts,
                                .top_k = top_k,
                                .softmax = {true, lse[n], 1.0F},
                                .two_z_lse = two_z * lse[n],
                                .rule = rule};
          backward_row(row);
        }
      });
}

}  // namespace ulmus::ops::cpu
