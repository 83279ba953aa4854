#include "ulmus/ops/head_loss.h"

#include <algorithm>

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void head_loss(const HeadLossArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.head_loss;
  const FrontDoor door(slot.name, ctx);
  door.is_float("x", args.x);
  door.rank("x", args.x, 2);
  door.rank("weight", args.weight, 2);
  const DType dtype = args.x.dtype();
  const std::int64_t num_rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  const std::int64_t vocabulary = args.weight.dim(0);
  // A grad_x without rows may be nowhere in memory.
  const bool with_gradients = !args.grad_weight.is_empty();
  door.require(with_gradients == !args.grad_x.is_empty() || num_rows == 0, "grad_x is ",
               args.grad_x.shape(), " and grad_weight is ", args.grad_weight.shape(),
               ", expected both or neither");
  door.operand("loss_sums", args.loss_sums, DType::kF64, {2});
  door.operand("x", args.x, dtype, {num_rows, width});
  door.operand("weight", args.weight, dtype, {vocabulary, width});
  door.operand("targets", args.targets, DType::kI32, {num_rows});
  door.require(vocabulary > 0, "weight is ", args.weight.shape(), ", expected at least one row");
  door.require(args.chunk_rows > 0, "chunk_rows is ", args.chunk_rows, ", expected at least 1");
  if (with_gradients) {
    door.operand("grad_x", args.grad_x, dtype, {num_rows, width});
    door.operand("grad_weight", args.grad_weight, dtype, {vocabulary, width});
    door.apart("grad_x", args.grad_x, "x", args.x);
    door.apart("grad_weight", args.grad_weight, "weight", args.weight);
  }
  const double one_product = 2.0 * static_cast<double>(num_rows) * static_cast<double>(width) *
                             static_cast<double>(vocabulary);
  book_and_run(
      slot, args,
      {.useful_flops = one_product * (with_gradients ? 3.0 : 1.0),
       .moved_bytes = bytes_of(args.loss_sums, args.grad_x, args.x, args.weight, args.targets) +
                      2.0 * bytes_of(args.grad_weight)},
      head_loss_scratch_bytes(args), ctx);
}

std::int64_t head_loss_scratch_bytes(const HeadLossArgs& args) {
  const std::int64_t rows = std::min(args.chunk_rows, args.x.dim(0));
  return in_cache_lines(rows * args.weight.dim(0) * size_of(args.x.dtype())) +
         in_cache_lines(rows * 2 * size_of(DType::kF64));
}

}  // namespace ulmus::ops
