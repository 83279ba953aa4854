#include "ulmus/ops/swiglu.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

namespace {

/// Rows for the meter: all of them when no row count limits them.
template <class Args>
std::int64_t counted_rows(const Args& args) {
  return args.row_count.is_empty() ? args.x.dim(0) : args.booked_rows;
}

}  // namespace

void swiglu_forward(const SwigluForwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.swiglu_forward;
  const FrontDoor door(slot.name, ctx);
  door.is_float("h", args.h);
  door.rank("h", args.h, 2);
  const DType dtype = args.h.dtype();
  const std::int64_t num_rows = args.h.dim(0);
  door.operand("h", args.h, dtype, args.h.shape());
  door.operand("x", args.x, dtype, {num_rows, 2 * args.h.dim(1)});
  if (!args.row_count.is_empty()) {
    door.operand("row_count", args.row_count, DType::kI32, {1});
  }
  door.booked("booked_rows", args.booked_rows, num_rows);
  const std::int64_t rows = counted_rows(args);
  const double moved = bytes_of_rows(args.h, rows) + bytes_of_rows(args.x, rows);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

void swiglu_backward(const SwigluBackwardArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.swiglu_backward;
  const FrontDoor door(slot.name, ctx);
  door.is_float("weighted_h", args.weighted_h);
  door.rank("weighted_h", args.weighted_h, 2);
  const DType dtype = args.weighted_h.dtype();
  const Shape h_shape = args.weighted_h.shape();
  const std::int64_t num_rows = h_shape.dim(0);
  const Shape x_shape = {num_rows, 2 * h_shape.dim(1)};
  door.operand("grad_x", args.grad_x, dtype, x_shape);
  door.operand("weighted_h", args.weighted_h, dtype, h_shape);
  if (!args.grad_row_weight.is_empty()) {
    door.operand("grad_row_weight", args.grad_row_weight, dtype, {num_rows});
  }
  door.operand("grad_h", args.grad_h, dtype, h_shape);
  door.operand("x", args.x, dtype, x_shape);
  if (!args.row_weight.is_empty()) {
    door.operand("row_weight", args.row_weight, dtype, {num_rows});
  }
  if (!args.row_count.is_empty()) {
    door.operand("row_count", args.row_count, DType::kI32, {1});
  }
  door.booked("booked_rows", args.booked_rows, num_rows);
  door.same_or_apart("grad_x", args.grad_x, "x", args.x);
  door.same_or_apart("weighted_h", args.weighted_h, "grad_h", args.grad_h);
  const std::int64_t rows = counted_rows(args);
  const double moved = bytes_of_rows(args.grad_x, rows) + bytes_of_rows(args.weighted_h, rows) +
                       bytes_of_rows(args.grad_row_weight, rows) +
                       bytes_of_rows(args.grad_h, rows) + bytes_of_rows(args.x, rows) +
                       bytes_of_rows(args.row_weight, rows);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
