#include "ulmus/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

namespace {

/// The keys that one query row sees, as rows of k and v.
struct KeyRange {
  std::int64_t begin;
  std::int64_t end;
};

template <class Args>
KeyRange keys_of(const Args& args, std::int64_t n) {
  const std::int64_t queries = args.q.dim(0) / args.num_sequences;
  const std::int64_t keys = args.k.dim(0) / args.num_sequences;
  const std::int64_t pos = keys - queries + n % queries;
  std::int64_t begin = args.first_key.template data<std::int32_t>()[n];
  ULMUS_DCHECK(0 <= begin && begin <= pos, "first key ", begin, " of a query at ", pos);
  if (args.window > 0) begin = std::max(begin, pos - args.window + 1);
  const std::int64_t sequence_begin = n / queries * keys;
  return {sequence_begin + begin, sequence_begin + pos + 1};
}

/// Head h of row n of a [N, heads, P] tensor.
template <class T>
const T* head(const ConstTensorView& view, std::int64_t n, std::int64_t h) {
  return row<T>(view, n) + h * view.dim(2);
}

/// Scores of one query head over its keys.
template <class T, class Args>
std::vector<double> scores_of(const Args& args, std::int64_t n, std::int64_t h, KeyRange keys) {
  const std::int64_t g = h / (args.q.dim(1) / args.k.dim(1));
  std::vector<double> scores;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    scores.push_back(args.scale * dot(head<T>(args.q, n, h), head<T>(args.k, j, g), args.q.dim(2)));
  }
  return scores;
}

double log_sum_exp(const std::vector<double>& values) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double value : values)
    largest = std::max(largest, value);
  double sum = 0.0;
  for (const double value : values)
    sum += std::exp(value - largest);
  return largest + std::log(sum);
}

template <class T>
void forward_head(const AttentionForwardArgs& args, std::int64_t n, std::int64_t h) {
  const std::int64_t width = args.q.dim(2);
  const std::int64_t g = h / (args.q.dim(1) / args.k.dim(1));
  const KeyRange keys = keys_of(args, n);
  const std::vector<double> scores = scores_of<T>(args, n, h, keys);
  const double lse = log_sum_exp(scores);
  std::vector<double> sums(static_cast<std::size_t>(width));
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const double p = std::exp(scores[static_cast<std::size_t>(j - keys.begin)] - lse);
    const T* v = head<T>(args.v, j, g);
    for (std::size_t c = 0; c < sums.size(); ++c)
      sums[c] += p * static_cast<double>(v[c]);
  }
  T* out = row<T>(args.out, n) + h * width;
  for (std::size_t c = 0; c < sums.size(); ++c)
    out[c] = static_cast<T>(sums[c]);
  row<T>(args.lse, n)[h] = static_cast<T>(lse);
}

/// Sums of the three gradients in double, in the layout of q, k and v.
struct Gradients {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
};

template <class T>
void backward_head(Gradients& grads, const AttentionBackwardArgs& args, std::int64_t n,
                   std::int64_t h) {
  const std::int64_t width = args.q.dim(2);
  const std::int64_t g = h / (args.q.dim(1) / args.k.dim(1));
  const KeyRange keys = keys_of(args, n);
  const std::vector<double> scores = scores_of<T>(args, n, h, keys);
  const T* q = head<T>(args.q, n, h);
  const T* grad_out = head<T>(args.grad_out, n, h);
  const double delta = dot(grad_out, head<T>(args.out, n, h), width);
  const auto lse = static_cast<double>(row<T>(args.lse, n)[h]);
  double* grad_q = grads.q.data() + (n * args.q.dim(1) + h) * width;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const T* k = head<T>(args.k, j, g);
    const double p = std::exp(scores[static_cast<std::size_t>(j - keys.begin)] - lse);
    const double ds = args.scale * p * (dot(grad_out, head<T>(args.v, j, g), width) - delta);
    double* grad_k = grads.k.data() + (j * args.k.dim(1) + g) * width;
    double* grad_v = grads.v.data() + (j * args.k.dim(1) + g) * width;
    for (std::int64_t c = 0; c < width; ++c) {
      grad_q[c] += ds * static_cast<double>(k[c]);
      grad_k[c] += ds * static_cast<double>(q[c]);
      grad_v[c] += p * static_cast<double>(grad_out[c]);
    }
  }
}

template <class T>
void store(TensorView to, const std::vector<double>& from) {
  std::transform(from.begin(), from.end(), to.data<T>(),
                 [](double value) { return static_cast<T>(value); });
}

}  // namespace

void attention_forward(const AttentionForwardArgs& args, TensorView /*scratch*/,
                       const ExecContext& /*ctx*/) {
  dispatch_float(args.q.dtype(), "attention_forward", [&]<class T>() {
    for (std::int64_t n = 0; n < args.q.dim(0); ++n) {
      for (std::int64_t h = 0; h < args.q.dim(1); ++h)
        forward_head<T>(args, n, h);
    }
  });
}

void attention_backward(const AttentionBackwardArgs& args, TensorView /*scratch*/,
                        const ExecContext& /*ctx*/) {
  dispatch_float(args.q.dtype(), "attention_backward", [&]<class T>() {
    const auto kv_elements = static_cast<std::size_t>(args.k.numel());
    Gradients grads{std::vector<double>(static_cast<std::size_t>(args.q.numel())),
                    std::vector<double>(kv_elements), std::vector<double>(kv_elements)};
    for (std::int64_t n = 0; n < args.q.dim(0); ++n) {
      for (std::int64_t h = 0; h < args.q.dim(1); ++h)
        backward_head<T>(grads, args, n, h);
    }
    store<T>(args.grad_q, grads.q);
    store<T>(args.grad_k, grads.k);
    store<T>(args.grad_v, grads.v);
  });
}

}  // namespace ulmus::ops::ref
