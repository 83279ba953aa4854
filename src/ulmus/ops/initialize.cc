#include "ulmus/ops/initialize.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void initialize_truncated_normal(const InitializeArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.initialize_truncated_normal;
  const FrontDoor door(slot.name, ctx);
  door.is_float("x", args.x);
  door.operand("x", args.x, args.x.dtype(), args.x.shape());
  door.require(args.std >= 0.0, "std is ", args.std, ", expected at least 0");
  // Below this the draws would be thrown away nearly for ever.
  door.require(args.bound >= 0.01, "bound is ", args.bound, ", expected at least 0.01");
  door.require(args.first_element >= 0, "first_element is ", args.first_element);
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.x)}, 0, ctx);
}

}  // namespace ulmus::ops
