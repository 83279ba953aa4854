#include "ulmus/ops/router.h"

#include <cmath>
#include <limits>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/router_row.h"
#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

namespace {

constexpr int kBatch = 32;  // winners kept on the stack; more are found in further passes

/// Integers in the order of the floats; NaN below -infinity, -0 equal to 0.
[[gnu::always_inline]] inline I32x8 order_keys(F32x8 x) {
  const I32x8 bits = reinterpret_cast<I32x8>(x + 0.0F);
  const I32x8 keys = bits ^ ((bits >> 31) & std::numeric_limits<std::int32_t>::max());
  return x == x ? keys : I32x8{} + std::numeric_limits<std::int32_t>::min();
}

[[gnu::always_inline]] inline bool any(I32x8 mask) {
  using I64x4 = std::int64_t __attribute__((vector_size(32)));
  const I64x4 words = reinterpret_cast<I64x4>(mask);
  return ((words[0] | words[1]) | (words[2] | words[3])) != 0;
}

/// The best candidates seen so far, best first. Candidates come in ascending index and displace
/// only smaller ones, so equal ones stay in ascending index.
struct Winners {
  std::int32_t keys[kBatch];
  std::int32_t ids[kBatch];
  int count = 0;
  int wanted = 0;

  /// Candidates up to this key change nothing (once the list is full).
  std::int32_t threshold() const { return keys[wanted - 1]; }
  bool is_full() const { return count == wanted; }
  void insert(std::int32_t key, std::int32_t id) {
    int at = is_full() ? count - 1 : count++;
    for (; at > 0 && keys[at - 1] < key; --at) {
      keys[at] = keys[at - 1];
      ids[at] = ids[at - 1];
    }
    keys[at] = key;
    ids[at] = id;
  }
};

/// What a token's experts are ordered by: its logits, or scores with a bias.
struct Candidates {
  const float* logits;
  const float* bias;  ///< nullptr: logits are compared
  std::int64_t num_experts;
  RouterGate gate;
  float max = 0.0F;
  float inverse_sum = 1.0F;

  [[gnu::always_inline]] inline I32x8 keys(std::int64_t e) const {
    const std::int64_t count = lanes_from(e, num_experts);
    const F32x8 x = load_row(logits + e, count);
    if (bias == nullptr) return order_keys(x);
    const F32x8 shift = load_row(bias + e, count);
    const F32x8 score = gate == RouterGate::kSigmoid ? sigmoid(x) : exp(x - max) * inverse_sum;
    return order_keys(score + shift);
  }
};

/// The best `wanted` candidates that rank after (last_key, last_id).
void select_batch(Winners& winners, const Candidates& candidates, std::int32_t last_key,
                  std::int32_t last_id) {
  for (std::int64_t e = 0; e < candidates.num_experts; e += kLanes) {
    const I32x8 keys = candidates.keys(e);
    if (winners.is_full() && !any(keys > winners.threshold())) continue;
    std::int32_t lane_keys[kLanes];
    std::memcpy(lane_keys, &keys, sizeof(keys));
    const std::int64_t count = lanes_from(e, candidates.num_experts);
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const std::int32_t key = lane_keys[lane];
      const auto id = static_cast<std::int32_t>(e + lane);
      const bool is_taken = key > last_key || (key == last_key && id <= last_id);
      if (is_taken || (winners.is_full() && key <= winners.threshold())) continue;
      winners.insert(key, id);
    }
  }
}

void select_row(std::int32_t* ids, std::int64_t top_k, const Candidates& candidates) {
  std::int32_t last_key = std::numeric_limits<std::int32_t>::max();
  std::int32_t last_id = -1;
  for (std::int64_t k = 0; k < top_k; k += kBatch) {
    Winners winners;
    winners.wanted = static_cast<int>(top_k - k < kBatch ? top_k - k : kBatch);
    select_batch(winners, candidates, last_key, last_id);
    for (int i = 0; i < winners.wanted; ++i)
      ids[k + i] = winners.ids[i];
    last_key = winners.keys[winners.wanted - 1];
    last_id = winners.ids[winners.wanted - 1];
  }
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

/// Weights of one token; `scores(x)` gives the scores of eight logits.
template <class Scores>
[[gnu::always_inline]] inline void weigh_row(float* weights, const float* logits,
                                             const std::int32_t* ids, std::int64_t top_k,
                                             const RouterRule& rule, Scores scores) {
  float sum = 0.0F;
  for (std::int64_t k = 0; k < top_k; k += kLanes) {
    const std::int64_t count = lanes_from(k, top_k);
    const F32x8 s = scores(selected_logits(logits, ids + k, count));
    sum += horizontal_sum(s);
    store_row(weights + k, s, count);
  }
  float factor = factor_of(rule, top_k);
  if (rule.weights != RouteWeights::kRaw) factor /= sum;
  for (std::int64_t k = 0; k < top_k; ++k)
    weights[k] = ids[k] < 0 ? 0.0F : weights[k] * factor;
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
          Candidates candidates{logits + n * num_experts, bias, num_experts, gate};
          if (bias != nullptr && gate == RouterGate::kSoftmax) {
            const SoftmaxRow row = softmax_row(candidates.logits, num_experts);
            candidates.max = row.max;
            candidates.inverse_sum = 1.0F / row.sum;
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
  ctx.device.pool().for_ranges(
      args.ids.dim(0), row_grain(2 * num_experts), [=](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t n = begin; n < end; ++n) {
          const float* row_logits = logits + n * num_experts;
          const SoftmaxRow row = softmax_row(row_logits, num_experts);
          lse[n] = row.max + std::log(row.sum);
          if (rule.gate == RouterGate::kSigmoid) {
            weigh_row(weights + n * top_k, row_logits, ids + n * top_k, top_k, rule,
                      [](F32x8 x) { return sigmoid(x); });
          } else {
            const float inverse_sum = 1.0F / row.sum;
            weigh_row(weights + n * top_k, row_logits, ids + n * top_k, top_k, rule,
                      [=](F32x8 x) { return exp(x - row.max) * inverse_sum; });
          }
        }
      });
}

namespace {

/// One token of router_backward. With p = softmax(logits), s the gate's scores, S the sum of the
/// selected ones, c the weights' factor:
///
///   raw         d/ds_k = c g_k
///   normalised  d/ds_k = c (g_k - sum_j g_j s_j / S) / S
///   softmax     grad_e = p_e (d_e + balance_e - sum (d + balance) p + 2 z lse)
///   sigmoid     grad_e = s_e (1 - s_e) (d_e + (balance_e - sum balance s / T) / T)
///                        + 2 z lse p_e,   T = sum over all experts of s
struct BackwardRow {
  float* grad_logits;
  const float* grad_weights;
  const float* balance;
  const float* logits;
  const std::int32_t* ids;
  std::int64_t num_experts;
  std::int64_t top_k;
  float lse;
  float two_z_lse;
  RouterRule rule;
};

template <RouterGate kGate>
[[gnu::always_inline]] inline F32x8 score_of(F32x8 x, float lse) {
  return kGate == RouterGate::kSigmoid ? sigmoid(x) : exp(x - lse);
}

/// d/ds_k = slope * g_k + offset for the selected experts.
struct ScoreGradient {
  float slope;
  float offset;
  float dot = 0.0F;  ///< sum_k d/ds_k s_k
};

template <RouterGate kGate>
[[gnu::always_inline]] inline ScoreGradient score_gradient(const BackwardRow& row) {
  float sum = 0.0F;
  float weighted = 0.0F;
  for (std::int64_t k = 0; k < row.top_k; k += kLanes) {
    const std::int64_t count = lanes_from(k, row.top_k);
    const F32x8 s = score_of<kGate>(selected_logits(row.logits, row.ids + k, count), row.lse);
    sum += horizontal_sum(s);
    weighted += horizontal_sum(s * load_row(row.grad_weights + k, count));
  }
  const float factor = factor_of(row.rule, row.top_k);
  if (row.rule.weights == RouteWeights::kRaw) return {factor, 0.0F, factor * weighted};
  const float slope = factor / sum;
  return {slope, -slope * (weighted / sum), 0.0F};
}

/// sum over all experts of balance_e s_e, and of s_e.
struct BalanceSums {
  float balance = 0.0F;
  float scores = 0.0F;
};

template <RouterGate kGate>
[[gnu::always_inline]] inline BalanceSums balance_sums(const BackwardRow& row) {
  F32x8 balance{};
  F32x8 scores{};
  for (std::int64_t e = 0; e < row.num_experts; e += kLanes) {
    const std::int64_t count = lanes_from(e, row.num_experts);
    const F32x8 s = score_of<kGate>(load_row(row.logits + e, count, kNoExpert), row.lse);
    scores += s;
    balance += s * load_row(row.balance + e, count);
  }
  return {horizontal_sum(balance), horizontal_sum(scores)};
}

template <RouterGate kGate>
void backward_row(const BackwardRow& row) {
  const ScoreGradient selected = score_gradient<kGate>(row);
  const BalanceSums sums = balance_sums<kGate>(row);
  const bool is_sigmoid = kGate == RouterGate::kSigmoid;
  const float inverse_total = is_sigmoid ? 1.0F / sums.scores : 1.0F;
  const float mean = sums.balance * inverse_total + (is_sigmoid ? 0.0F : selected.dot);
  for (std::int64_t e = 0; e < row.num_experts; e += kLanes) {
    const std::int64_t count = lanes_from(e, row.num_experts);
    const F32x8 x = load_row(row.logits + e, count, kNoExpert);
    const F32x8 p = exp(x - row.lse);
    const F32x8 pull = load_row(row.balance + e, count) - mean;
    if (is_sigmoid) {
      const F32x8 s = sigmoid(x);
      store_row(row.grad_logits + e, s * (1.0F - s) * pull * inverse_total + row.two_z_lse * p,
                count);
    } else {
      store_row(row.grad_logits + e, p * (pull + row.two_z_lse), count);
    }
  }
  for (std::int64_t k = 0; k < row.top_k; k += kLanes) {
    const std::int64_t count = lanes_from(k, row.top_k);
    const F32x8 s = score_of<kGate>(selected_logits(row.logits, row.ids + k, count), row.lse);
    const F32x8 slope = is_sigmoid ? s * (1.0F - s) : s;
    const F32x8 grad =
        slope * (selected.slope * load_row(row.grad_weights + k, count) + selected.offset);
    for (std::int64_t lane = 0; lane < count; ++lane) {
      if (row.ids[k + lane] >= 0) row.grad_logits[row.ids[k + lane]] += grad[lane];
    }
  }
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
                                .lse = lse[n],
                                .two_z_lse = two_z * lse[n],
                                .rule = rule};
          if (rule.gate == RouterGate::kSigmoid) {
            backward_row<RouterGate::kSigmoid>(row);
          } else {
            backward_row<RouterGate::kSoftmax>(row);
          }
        }
      });
}

}  // namespace ulmus::ops::cpu
