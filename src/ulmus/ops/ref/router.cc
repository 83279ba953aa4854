#include "ulmus/ops/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"
#include "ulmus/ops/ref/sigmoid.h"

namespace ulmus::ops::ref {

namespace {

/// log sigmoid(z) without overflow on either side
double log_sigmoid(double z) { return std::min(z, 0.0) - std::log1p(std::exp(-std::abs(z))); }

template <class T>
double log_sum_exp(const T* logits, std::int64_t num_experts) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t e = 0; e < num_experts; ++e) {
    largest = std::max(largest, static_cast<double>(logits[e]));
  }
  double sum = 0.0;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    sum += std::exp(static_cast<double>(logits[e]) - largest);
  }
  return largest + std::log(sum);
}

/// The order of selection: a before b when its key is larger; NaN after everything; equal ones by
/// index.
bool ranks_before(double key_a, std::int64_t a, double key_b, std::int64_t b) {
  const bool nan_a = std::isnan(key_a);
  const bool nan_b = std::isnan(key_b);
  if (nan_a != nan_b) return nan_b;
  if (!nan_a && key_a != key_b) return key_a > key_b;
  return a < b;
}

/// What is compared: the logit, or score + bias.
template <class T>
void selection_keys(std::vector<double>& keys, const RouterSelectArgs& args, std::int64_t n) {
  const T* logits = row<T>(args.logits, n);
  const std::int64_t num_experts = args.logits.dim(1);
  keys.assign(logits, logits + num_experts);
  if (args.bias.is_empty()) return;
  const T* bias = args.bias.data<T>();
  const double lse = log_sum_exp(logits, num_experts);
  for (std::int64_t e = 0; e < num_experts; ++e) {
    double& key = keys[static_cast<std::size_t>(e)];
    key = args.gate == RouterGate::kSoftmax ? std::exp(key - lse) : sigmoid(key);
    key += static_cast<double>(bias[e]);
  }
}

/// The order is total, so choice k is the first of those that rank after choice k - 1.
void choose(std::int32_t* ids, std::int64_t top_k, const std::vector<double>& keys) {
  const auto num_experts = static_cast<std::int32_t>(keys.size());
  const auto key = [&](std::int32_t e) { return keys[static_cast<std::size_t>(e)]; };
  std::int32_t last = -1;
  for (std::int64_t k = 0; k < top_k; ++k) {
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < num_experts; ++e) {
      if (last >= 0 && !ranks_before(key(last), last, key(e), e)) continue;
      if (best < 0 || ranks_before(key(e), e, key(best), best)) best = e;
    }
    ids[k] = best;
    last = best;
  }
}

}  // namespace

void router_select(const RouterSelectArgs& args, TensorView /*scratch*/,
                   const ExecContext& /*ctx*/) {
  dispatch_float(args.logits.dtype(), "router_select", [&]<class T>() {
    const auto* valid = args.valid.data<std::uint8_t>();
    const std::int64_t top_k = args.ids.dim(1);
    std::vector<double> keys;
    for (std::int64_t n = 0; n < args.ids.dim(0); ++n) {
      auto* ids = row<std::int32_t>(args.ids, n);
      if (valid[n] == 0) {
        std::fill_n(ids, top_k, -1);
        continue;
      }
      selection_keys<T>(keys, args, n);
      choose(ids, top_k, keys);
    }
  });
}

namespace {

/// Floyd's choice: draw k is uniform in [0, E - K + k]; one that was drawn before gives that
/// range's last number instead, which cannot have been.
void choose_at_random(std::int32_t* ids, const ForcedRoutesArgs& args, std::int64_t token) {
  const auto top_k = static_cast<std::int32_t>(args.ids.dim(1));
  const auto step = static_cast<std::uint64_t>(args.step);
  PhiloxCounter words{};
  for (std::int32_t k = 0; k < top_k; ++k) {
    const auto draw = static_cast<std::uint32_t>(k);
    if (k % 4 == 0) {
      words = philox(args.key, {static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(step),
                                static_cast<std::uint32_t>(step >> 32U), draw / 4});
    }
    const std::int32_t last = args.num_experts - top_k + k;
    const auto range = static_cast<std::uint64_t>(last) + 1;
    const auto drawn = static_cast<std::int32_t>((words[draw % 4] * range) >> 32U);
    const bool is_taken = std::find(ids, ids + k, drawn) != ids + k;
    ids[k] = is_taken ? last : drawn;
  }
}

}  // namespace

void forced_routes(const ForcedRoutesArgs& args, TensorView /*scratch*/,
                   const ExecContext& /*ctx*/) {
  const auto* valid = args.valid.data<std::uint8_t>();
  const std::int64_t top_k = args.ids.dim(1);
  for (std::int64_t n = 0; n < args.ids.dim(0); ++n) {
    auto* ids = row<std::int32_t>(args.ids, n);
    const std::int64_t token = args.first_token + n;
    if (valid[n] == 0) {
      std::fill_n(ids, top_k, -1);
    } else if (args.routing == ForcedRouting::kRandom) {
      choose_at_random(ids, args, token);
    } else {
      for (std::int64_t k = 0; k < top_k; ++k) {
        ids[k] = static_cast<std::int32_t>((token * top_k + k) % args.num_experts);
      }
    }
  }
}

namespace {

/// Logarithm of the score of one expert.
double log_score(double logit, double lse, RouterGate gate) {
  return gate == RouterGate::kSoftmax ? logit - lse : log_sigmoid(logit);
}

/// scores[k] = s_k, or, under the two sum rules, s_k / sum_j s_j taken relative to the largest so
/// that it neither overflows nor becomes 0 / 0; 0 for an id of -1.
template <class T>
void selected_scores(std::vector<double>& scores, const T* logits, const std::int32_t* ids,
                     double lse, const RouterRule& rule) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < scores.size(); ++k) {
    if (ids[k] < 0) continue;
    scores[k] = log_score(static_cast<double>(logits[ids[k]]), lse, rule.gate);
    largest = std::max(largest, scores[k]);
  }
  const bool is_raw = rule.weights == RouteWeights::kRaw;
  double sum = 0.0;
  for (std::size_t k = 0; k < scores.size(); ++k) {
    scores[k] = ids[k] < 0 ? 0.0 : std::exp(scores[k] - (is_raw ? 0.0 : largest));
    sum += scores[k];
  }
  if (is_raw) return;
  for (double& score : scores)
    score = sum == 0.0 ? 0.0 : score / sum;
}

/// What multiplies selected_scores to give weights.
double weight_factor(const RouterRule& rule, std::int64_t top_k) {
  return rule.scale * (rule.weights == RouteWeights::kSumToK ? static_cast<double>(top_k) : 1.0);
}

}  // namespace

void router_weights(const RouterWeightsArgs& args, TensorView /*scratch*/,
                    const ExecContext& /*ctx*/) {
  dispatch_float(args.logits.dtype(), "router_weights", [&]<class T>() {
    const std::int64_t top_k = args.ids.dim(1);
    const double factor = weight_factor(args.rule, top_k);
    std::vector<double> scores(static_cast<std::size_t>(top_k));
    for (std::int64_t n = 0; n < args.ids.dim(0); ++n) {
      const T* logits = row<T>(args.logits, n);
      const double lse = log_sum_exp(logits, args.logits.dim(1));
      args.lse.data<T>()[n] = static_cast<T>(lse);
      selected_scores(scores, logits, row<std::int32_t>(args.ids, n), lse, args.rule);
      T* weights = row<T>(args.weights, n);
      for (std::size_t k = 0; k < scores.size(); ++k) {
        weights[k] = static_cast<T>(factor * scores[k]);
      }
    }
  });
}

namespace {

/// Padding has no route.
bool is_padding(const std::int32_t* ids) { return ids[0] < 0; }

/// scores[e] = softmax, or sigmoid divided by its sum over experts
template <class T>
void normalised_scores(std::vector<double>& scores, const T* logits, double lse, RouterGate gate) {
  double sum = 0.0;
  for (std::size_t e = 0; e < scores.size(); ++e) {
    const auto logit = static_cast<double>(logits[e]);
    scores[e] = gate == RouterGate::kSoftmax ? std::exp(logit - lse) : sigmoid(logit);
    sum += scores[e];
  }
  if (gate == RouterGate::kSoftmax) return;
  for (double& score : scores)
    score /= sum;
}

/// One group: its own counts and sums, which are then added to the totals.
template <class T>
void group_statistics(const RouterStatisticsArgs& args, std::int64_t group,
                      std::vector<double>& scores) {
  const std::int64_t group_tokens = args.logits.dim(0) / args.counts.dim(0);
  auto* counts = row<std::int64_t>(args.counts, group);
  auto* score_sums = row<double>(args.score_sums, group);
  std::fill_n(counts, scores.size(), 0);
  std::fill_n(score_sums, scores.size(), 0.0);
  for (std::int64_t n = group * group_tokens; n < (group + 1) * group_tokens; ++n) {
    const auto* ids = row<std::int32_t>(args.ids, n);
    if (is_padding(ids)) continue;
    for (std::int64_t k = 0; k < args.ids.dim(1); ++k) {
      if (ids[k] >= 0) ++counts[ids[k]];
    }
    const auto lse = static_cast<double>(args.lse.data<T>()[n]);
    normalised_scores(scores, row<T>(args.logits, n), lse, args.gate);
    for (std::size_t e = 0; e < scores.size(); ++e)
      score_sums[e] += scores[e];
    *args.z_sum.data<double>() += lse * lse;
  }
  if (group_tokens == 0) return;
  for (std::size_t e = 0; e < scores.size(); ++e) {
    args.counts_total.data<std::int64_t>()[e] += counts[e];
    args.score_total.data<double>()[e] += score_sums[e];
  }
}

}  // namespace

void router_statistics(const RouterStatisticsArgs& args, TensorView /*scratch*/,
                       const ExecContext& /*ctx*/) {
  dispatch_float(args.logits.dtype(), "router_statistics", [&]<class T>() {
    std::vector<double> scores(static_cast<std::size_t>(args.logits.dim(1)));
    for (std::int64_t group = 0; group < args.counts.dim(0); ++group) {
      group_statistics<T>(args, group, scores);
    }
  });
}

namespace {

/// grad[e] of sum_k <grad_weights[k], weights[k]>. With s' = s (raw) or s / sum (sum rules) and
/// c the weight factor: d s'_k / d log s_j = s'_k ([j = k] - s'_j) under the sum rules, s'_k
/// [j = k] else; and d log s_j / d logit_e = [e = j] - p_e (softmax) or [e = j] (1 - s_j)
/// (sigmoid).
template <class T>
void add_weight_gradient(std::vector<double>& grad, const RouterBackwardArgs& args, std::int64_t n,
                         std::vector<double>& selected, const std::vector<double>& softmax) {
  const T* logits = row<T>(args.logits, n);
  const auto* ids = row<std::int32_t>(args.ids, n);
  const T* grad_weights = row<T>(args.grad_weights, n);
  const auto lse = static_cast<double>(args.lse.data<T>()[n]);
  selected_scores(selected, logits, ids, lse, args.rule);
  const double factor = weight_factor(args.rule, args.ids.dim(1));
  double mean = 0.0;
  if (args.rule.weights != RouteWeights::kRaw) {
    for (std::size_t k = 0; k < selected.size(); ++k) {
      mean += static_cast<double>(grad_weights[k]) * selected[k];
    }
  }
  double sum = 0.0;
  for (std::size_t k = 0; k < selected.size(); ++k) {
    if (ids[k] < 0) continue;
    const double of_log_score =
        factor * selected[k] * (static_cast<double>(grad_weights[k]) - mean);
    const double slope = args.rule.gate == RouterGate::kSoftmax
                             ? 1.0
                             : sigmoid(-static_cast<double>(logits[ids[k]]));
    grad[static_cast<std::size_t>(ids[k])] += of_log_score * slope;
    sum += of_log_score;
  }
  if (args.rule.gate == RouterGate::kSigmoid) return;
  for (std::size_t e = 0; e < grad.size(); ++e)
    grad[e] -= sum * softmax[e];
}

/// grad[e] of sum_e balance[e] * normalised score[e]
template <class T>
void add_balance_gradient(std::vector<double>& grad, const T* balance, const T* logits,
                          const std::vector<double>& scores, RouterGate gate) {
  double mean = 0.0;
  for (std::size_t e = 0; e < grad.size(); ++e)
    mean += static_cast<double>(balance[e]) * scores[e];
  for (std::size_t e = 0; e < grad.size(); ++e) {
    const double slope =
        gate == RouterGate::kSoftmax ? 1.0 : sigmoid(-static_cast<double>(logits[e]));
    grad[e] += scores[e] * (static_cast<double>(balance[e]) - mean) * slope;
  }
}

}  // namespace

void router_backward(const RouterBackwardArgs& args, TensorView /*scratch*/,
                     const ExecContext& /*ctx*/) {
  if (args.logits.dim(0) == 0) return;
  dispatch_float(args.logits.dtype(), "router_backward", [&]<class T>() {
    const std::int64_t num_experts = args.logits.dim(1);
    const std::int64_t group_tokens = args.logits.dim(0) / args.balance.dim(0);
    std::vector<double> grad(static_cast<std::size_t>(num_experts));
    std::vector<double> softmax(grad.size());
    std::vector<double> scores(grad.size());
    std::vector<double> selected(static_cast<std::size_t>(args.ids.dim(1)));
    for (std::int64_t n = 0; n < args.logits.dim(0); ++n) {
      T* grad_logits = row<T>(args.grad_logits, n);
      if (is_padding(row<std::int32_t>(args.ids, n))) {
        std::fill_n(grad_logits, num_experts, T{0});
        continue;
      }
      const T* logits = row<T>(args.logits, n);
      const auto lse = static_cast<double>(args.lse.data<T>()[n]);
      normalised_scores(softmax, logits, lse, RouterGate::kSoftmax);
      normalised_scores(scores, logits, lse, args.rule.gate);
      for (std::size_t e = 0; e < grad.size(); ++e) {
        grad[e] = 2.0 * args.z_coefficient * lse * softmax[e];
      }
      add_weight_gradient<T>(grad, args, n, selected, softmax);
      add_balance_gradient(grad, row<T>(args.balance, n / group_tokens), logits, scores,
                           args.rule.gate);
      for (std::size_t e = 0; e < grad.size(); ++e)
        grad_logits[e] = static_cast<T>(grad[e]);
    }
  });
}

}  // namespace ulmus::ops::ref
