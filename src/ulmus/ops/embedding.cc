#include "ulmus/ops/embedding.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void embedding_forward(const EmbeddingForwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.embedding_forward;
  const FrontDoor door(slot.name, ctx);
  door.is_float("y", args.y);
  door.rank("y", args.y, 2);
  door.rank("weight", args.weight, 2);
  const DType dtype = args.y.dtype();
  const std::int64_t num_tokens = args.y.dim(0);
  const std::int64_t width = args.y.dim(1);
  door.operand("y", args.y, dtype, {num_tokens, width});
  door.operand("weight", args.weight, dtype, {args.weight.dim(0), width});
  door.operand("ids", args.ids, DType::kI32, {num_tokens});
  book_and_run(slot, args, {.moved_bytes = 2.0 * bytes_of(args.y) + bytes_of(args.ids)}, 0, ctx);
}

void embedding_backward(const EmbeddingBackwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.embedding_backward;
  const FrontDoor door(slot.name, ctx);
  door.is_float("grad_weight", args.grad_weight);
  door.rank("grad_weight", args.grad_weight, 2);
  door.rank("grad_y", args.grad_y, 2);
  const DType dtype = args.grad_weight.dtype();
  const std::int64_t num_tokens = args.grad_y.dim(0);
  const std::int64_t width = args.grad_weight.dim(1);
  door.operand("grad_weight", args.grad_weight, dtype, args.grad_weight.shape());
  door.operand("grad_y", args.grad_y, dtype, {num_tokens, width});
  door.operand("ids", args.ids, DType::kI32, {num_tokens});
  book_and_run(slot, args, {.moved_bytes = 3.0 * bytes_of(args.grad_y) + bytes_of(args.ids)}, 0,
               ctx);
}

}  // namespace ulmus::ops
