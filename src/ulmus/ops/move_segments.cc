#include "ulmus/ops/move_segments.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void move_segments(const MoveSegmentsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.move_segments;
  const FrontDoor door(slot.name, ctx);
  door.is_float("out", args.out);
  const int rank = args.out.rank();
  door.require(rank == 1 || rank == 2, "out is ", args.out.dtype(), " ", args.out.shape(),
               ", expected 1 or 2 axes");
  door.rank("in", args.in, rank);
  door.rank("segments", args.segments, 2);
  const DType dtype = args.out.dtype();
  const std::int64_t in_rows = args.in.dim(0);
  door.operand("out", args.out, dtype, args.out.shape());
  door.operand("in", args.in, dtype, rank == 1 ? Shape{in_rows} : Shape{in_rows, args.out.dim(1)});
  door.operand("segments", args.segments, DType::kI64, {args.segments.dim(0), RowSegment::kFields});
  door.booked("booked_rows", args.booked_rows, args.out.dim(0));
  door.apart("out", args.out, "in", args.in);
  const double moved = 2.0 * bytes_of_rows(args.out, args.booked_rows) + bytes_of(args.segments);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

}  // namespace ulmus::ops
