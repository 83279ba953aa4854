#include "ulmus/ops/route_rows.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void gather_rows(const GatherRowsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.gather_rows;
  const FrontDoor door(slot.name, ctx);
  door.is_float("grouped", args.grouped);
  door.rank("grouped", args.grouped, 2);
  door.rank("rows", args.rows, 2);
  const DType dtype = args.grouped.dtype();
  const std::int64_t capacity = args.grouped.dim(0);
  door.operand("grouped", args.grouped, dtype, args.grouped.shape());
  door.operand("rows", args.rows, dtype, {args.rows.dim(0), args.grouped.dim(1)});
  door.operand("route_of_row", args.route_of_row, DType::kI32, {capacity});
  door.operand("row_count", args.row_count, DType::kI32, {1});
  door.require(args.top_k > 0, "top_k is ", args.top_k);
  door.booked("booked_rows", args.booked_rows, capacity);
  door.apart("grouped", args.grouped, "rows", args.rows);
  const double moved = 2.0 * bytes_of_rows(args.grouped, args.booked_rows) +
                       bytes_of_rows(args.route_of_row, args.booked_rows);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

void combine_rows(const CombineRowsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.combine_rows;
  const FrontDoor door(slot.name, ctx);
  door.is_float("out", args.out);
  door.rank("out", args.out, 2);
  door.rank("grouped", args.grouped, 2);
  door.rank("row_of_route", args.row_of_route, 2);
  const DType dtype = args.out.dtype();
  const std::int64_t num_tokens = args.out.dim(0);
  const Shape routes = {num_tokens, args.row_of_route.dim(1)};
  door.operand("out", args.out, dtype, args.out.shape());
  door.operand("grouped", args.grouped, dtype, {args.grouped.dim(0), args.out.dim(1)});
  if (!args.weights.is_empty()) door.operand("weights", args.weights, dtype, routes);
  door.operand("row_of_route", args.row_of_route, DType::kI32, routes);
  door.booked("booked_rows", args.booked_rows, args.grouped.dim(0));
  door.apart("out", args.out, "grouped", args.grouped);
  const double moved = bytes_of(args.out, args.weights, args.row_of_route) +
                       bytes_of_rows(args.grouped, args.booked_rows);
  book_and_run(slot, args, {.moved_bytes = moved}, 0, ctx);
}

void gather_scalars(const GatherScalarsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.gather_scalars;
  const FrontDoor door(slot.name, ctx);
  door.is_float("of_row", args.of_row);
  door.rank("of_row", args.of_row, 1);
  door.rank("of_route", args.of_route, 2);
  const DType dtype = args.of_row.dtype();
  door.operand("of_row", args.of_row, dtype, args.of_row.shape());
  door.operand("of_route", args.of_route, dtype, args.of_route.shape());
  door.operand("route_of_row", args.route_of_row, DType::kI32, args.of_row.shape());
  door.operand("row_count", args.row_count, DType::kI32, {1});
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.of_row, args.of_route, args.route_of_row)},
               0, ctx);
}

void collect_scalars(const CollectScalarsArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.collect_scalars;
  const FrontDoor door(slot.name, ctx);
  door.is_float("of_route", args.of_route);
  door.rank("of_route", args.of_route, 2);
  door.rank("of_row", args.of_row, 1);
  const DType dtype = args.of_route.dtype();
  door.operand("of_route", args.of_route, dtype, args.of_route.shape());
  door.operand("of_row", args.of_row, dtype, args.of_row.shape());
  door.operand("row_of_route", args.row_of_route, DType::kI32, args.of_route.shape());
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.of_route, args.of_row, args.row_of_route)},
               0, ctx);
}

}  // namespace ulmus::ops
