#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Largest tiles, in rows, for which scratch is priced.
inline constexpr std::int64_t kAttentionQueryTile = 64;
inline constexpr std::int64_t kAttentionKeyTile = 64;

/// Rows of each of B sequences that lie one after the other; 0 when there are none.
constexpr std::int64_t rows_of_one(std::int64_t num_rows, std::int64_t num_sequences) {
  return num_sequences > 0 ? num_rows / num_sequences : 0;
}

/// Causal softmax attention of B independent sequences, in tiles with a running maximum and sum
/// (Milakov and Gimelshein 2018; Dao et al. 2022): no [S, S] matrix exists.
///
/// Rows are B sequences one after the other: N = B * S_q query rows, M = B * S_k key rows; B and
/// S_q may be 0. Query i of a sequence stands at key position pos = S_k - S_q + i (S_q < S_k when
/// decoding with a cache) and sees the keys
///   j in [max(first_key[n], pos - window + 1), pos]      (window 0: no limit)
/// so that causality, sliding windows and document masks are one rule. Query head h reads key head
/// h / (H / G).
///
///   s[j]       = scale * <q[n, h], k[j, g]>
///   lse[n, h]  = log sum_j exp(s[j])
///   out[n, h]  = sum_j exp(s[j] - lse) * v[j, g]
///
///   out        [N, H, P]  out, overwritten
///   lse        [N, H]     out, overwritten; kept for attention_backward
///   q          [N, H, P]  in
///   k, v       [M, G, P]  in; H % G = 0
///   first_key  [N]        i32 in, 0 <= first_key[n] <= pos: where the query's document begins
/// All contiguous, one float dtype. Softmax and sums in at least f32.
struct AttentionForwardArgs {
  TensorView out;
  TensorView lse;
  ConstTensorView q;
  ConstTensorView k;
  ConstTensorView v;
  ConstTensorView first_key;
  std::int64_t num_sequences = 1;
  std::int64_t window = 0;
  double scale = 1.0;
  std::int64_t booked_pairs = 0;  ///< attended (query, key) pairs of one head, for the meter
};
void attention_forward(const AttentionForwardArgs& args, const ExecContext& ctx);
/// For each thread a tile of queries, their running output and the scores of a strip of 16 of them.
std::int64_t attention_forward_scratch_bytes(const AttentionForwardArgs& args, int num_threads);

/// Gradients of the above, S_q = S_k; probabilities are formed again from q, k and lse.
///
///   delta[n, h] = <grad_out[n, h], out[n, h]>
///   p[j]        = exp(s[j] - lse);  ds[j] = p[j] * (<grad_out[n, h], v[j, g]> - delta[n, h])
///   grad_q[n, h] = scale * sum_j ds[j] k[j, g]
///   grad_k[j, g] = scale * sum over n, h of ds[j] q[n, h];  grad_v[j, g] = sum p[j] grad_out[n, h]
///
///   grad_q              [N, H, P]  out, overwritten
///   grad_k, grad_v      [N, G, P]  out, overwritten; summed in a fixed order
///   grad_out, q, k, v, out, lse, first_key: in, as in the forward call
/// No output may share memory with another operand.
struct AttentionBackwardArgs {
  TensorView grad_q;
  TensorView grad_k;
  TensorView grad_v;
  ConstTensorView grad_out;
  ConstTensorView q;
  ConstTensorView k;
  ConstTensorView v;
  ConstTensorView out;
  ConstTensorView lse;
  ConstTensorView first_key;
  std::int64_t num_sequences = 1;
  std::int64_t window = 0;
  double scale = 1.0;
  std::int64_t booked_pairs = 0;
};
void attention_backward(const AttentionBackwardArgs& args, const ExecContext& ctx);
/// For each thread a tile of queries in packed order and two tiles of probabilities.
std::int64_t attention_backward_scratch_bytes(const AttentionBackwardArgs& args, int num_threads);

}  // namespace ulmus::ops
