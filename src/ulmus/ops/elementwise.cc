#include "ulmus/ops/elementwise.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void fill(const FillArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.fill;
  const FrontDoor door(slot.name, ctx);
  door.operand("x", args.x, args.x.dtype(), args.x.shape());
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.x)}, 0, ctx);
}

void copy(const CopyArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.copy;
  const FrontDoor door(slot.name, ctx);
  door.operand("y", args.y, args.y.dtype(), args.y.shape());
  door.operand("x", args.x, args.y.dtype(), args.y.shape());
  door.apart("y", args.y, "x", args.x);
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.y, args.x)}, 0, ctx);
}

void add(const AddArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.add;
  const FrontDoor door(slot.name, ctx);
  door.is_float("y", args.y);
  const DType dtype = args.y.dtype();
  door.operand("y", args.y, dtype, args.y.shape());
  door.operand("a", args.a, dtype, args.y.shape());
  door.operand("b", args.b, dtype, args.y.shape());
  door.same_or_apart("y", args.y, "a", args.a);
  door.same_or_apart("y", args.y, "b", args.b);
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.y, args.a, args.b)}, 0, ctx);
}

}  // namespace ulmus::ops
