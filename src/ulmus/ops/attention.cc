#include "ulmus/ops/attention.h"

#include <algorithm>

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

namespace {

/// The demands that both directions share.
template <class Args>
void check_attention(const FrontDoor& door, const Args& args) {
  door.is_float("q", args.q);
  door.rank("q", args.q, 3);
  door.rank("k", args.k, 3);
  const DType dtype = args.q.dtype();
  const std::int64_t num_queries = args.q.dim(0);
  const std::int64_t num_heads = args.q.dim(1);
  const std::int64_t width = args.q.dim(2);
  const std::int64_t num_keys = args.k.dim(0);
  const std::int64_t num_key_heads = args.k.dim(1);
  door.operand("q", args.q, dtype, {num_queries, num_heads, width});
  door.operand("k", args.k, dtype, {num_keys, num_key_heads, width});
  door.operand("v", args.v, dtype, {num_keys, num_key_heads, width});
  door.operand("out", args.out, dtype, {num_queries, num_heads, width});
  door.operand("lse", args.lse, dtype, {num_queries, num_heads});
  door.operand("first_key", args.first_key, DType::kI32, {num_queries});
  door.require(num_key_heads > 0 && num_heads % num_key_heads == 0, "q ", args.q.shape(), " has ",
               num_heads, " heads, expected a multiple of the ", num_key_heads, " of k ",
               args.k.shape());
  const std::int64_t num_sequences = args.num_sequences;
  door.require(num_sequences >= 0, "num_sequences is ", num_sequences, ", expected at least 0");
  door.require(num_sequences > 0 ? num_queries % num_sequences == 0 && num_keys % num_sequences == 0
                                 : num_queries == 0 && num_keys == 0,
               num_queries, " query rows and ", num_keys, " key rows, expected multiples of ",
               num_sequences, " sequences");
  door.require(num_queries <= num_keys, num_queries, " query rows, expected at most the ", num_keys,
               " key rows");
  door.require(args.window >= 0, "window is ", args.window, ", expected 0 (no limit) or more");
  door.booked("booked_pairs", args.booked_pairs,
              num_queries * rows_of_one(num_keys, num_sequences));
}

/// Products of [pairs, P] size in units of one: q k^T and p v make two of 2 pairs P each.
template <class Args>
double flops_of(const Args& args, double per_pair_and_channel) {
  return per_pair_and_channel * static_cast<double>(args.booked_pairs) *
         static_cast<double>(args.q.dim(1)) * static_cast<double>(args.q.dim(2));
}

}  // namespace

void attention_forward(const AttentionForwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.attention_forward;
  const FrontDoor door(slot.name, ctx);
  check_attention(door, args);
  door.apart("out", args.out, "q", args.q);
  door.apart("out", args.out, "k", args.k);
  door.apart("out", args.out, "v", args.v);
  door.apart("lse", args.lse, "out", args.out);
  door.apart("lse", args.lse, "q", args.q);
  door.apart("lse", args.lse, "k", args.k);
  door.apart("lse", args.lse, "v", args.v);
  book_and_run(
      slot, args,
      {.useful_flops = flops_of(args, 4.0),
       .moved_bytes = bytes_of(args.out, args.lse, args.q, args.k, args.v, args.first_key)},
      attention_forward_scratch_bytes(args, ctx.device.scratch_threads()), ctx);
}

void attention_backward(const AttentionBackwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.attention_backward;
  const FrontDoor door(slot.name, ctx);
  check_attention(door, args);
  const DType dtype = args.q.dtype();
  door.require(args.q.dim(0) == args.k.dim(0), "q ", args.q.shape(),
               ", expected as many rows as k ", args.k.shape());
  door.operand("grad_q", args.grad_q, dtype, args.q.shape());
  door.operand("grad_k", args.grad_k, dtype, args.k.shape());
  door.operand("grad_v", args.grad_v, dtype, args.k.shape());
  door.operand("grad_out", args.grad_out, dtype, args.q.shape());
  for (const auto& [name, grad] : {std::pair("grad_q", ConstTensorView(args.grad_q)),
                                   std::pair("grad_k", ConstTensorView(args.grad_k)),
                                   std::pair("grad_v", ConstTensorView(args.grad_v))}) {
    door.apart(name, grad, "grad_out", args.grad_out);
    door.apart(name, grad, "q", args.q);
    door.apart(name, grad, "k", args.k);
    door.apart(name, grad, "v", args.v);
    door.apart(name, grad, "out", args.out);
    door.apart(name, grad, "lse", args.lse);
  }
  door.apart("grad_q", args.grad_q, "grad_k", args.grad_k);
  door.apart("grad_q", args.grad_q, "grad_v", args.grad_v);
  door.apart("grad_k", args.grad_k, "grad_v", args.grad_v);
  book_and_run(
      slot, args,
      {.useful_flops = flops_of(args, 8.0),
       .moved_bytes = bytes_of(args.grad_q, args.grad_k, args.grad_v, args.grad_out, args.q, args.k,
                               args.v, args.out, args.lse, args.first_key)},
      attention_backward_scratch_bytes(args, ctx.device.scratch_threads()), ctx);
}

std::int64_t attention_forward_scratch_bytes(const AttentionForwardArgs& args, int num_threads) {
  const std::int64_t width = args.q.dim(2);
  // The queries of a tile and their running output; the scores of one strip of 16 queries.
  const std::int64_t elements = 2 * kAttentionQueryTile * width + kAttentionKeyTile * 16;
  return num_threads * in_cache_lines(elements * size_of(args.q.dtype()));
}

std::int64_t attention_backward_scratch_bytes(const AttentionBackwardArgs& args, int num_threads) {
  const std::int64_t width = args.q.dim(2);
  const std::int64_t padded_width = (width + 15) / 16 * 16;
  // q, grad_out and grad_q of a tile of queries turned around, the first two also by rows;
  // probabilities and their gradients.
  const std::int64_t elements = 3 * kAttentionQueryTile * width +
                                2 * kAttentionQueryTile * padded_width +
                                2 * kAttentionQueryTile * kAttentionKeyTile;
  return num_threads * in_cache_lines(elements * size_of(args.q.dtype()));
}

}  // namespace ulmus::ops
