#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// grouped[r, :] = rows[route_of_row[r] / K, :] for every row r < row_count
///   grouped       [R, D]  out; rows below the count overwritten, others left alone
///   rows          [N, D]  in
///   route_of_row  [R]     i32 in
///   row_count     [1]     i32 in, on the device
struct GatherRowsArgs {
  TensorView grouped;
  ConstTensorView rows;
  ConstTensorView route_of_row;
  ConstTensorView row_count;
  int top_k = 1;
  std::int64_t booked_rows = 0;
};
void gather_rows(const GatherRowsArgs& args, const ExecContext& ctx);

/// out[n, :] (=) sum over k = 0..K-1, in that order, of w[n, k] * grouped[row_of_route[n, k], :];
/// routes without a row (-1) add nothing. Sums in at least f32. Without weights all w are 1: the
/// transpose of gather_rows.
///   out           [N, D]  out, overwritten
///   grouped       [R, D]  in
///   weights       [N, K]  in; empty view: all 1
///   row_of_route  [N, K]  i32 in
struct CombineRowsArgs {
  TensorView out;
  ConstTensorView grouped;
  ConstTensorView weights;
  ConstTensorView row_of_route;
  std::int64_t booked_rows = 0;
};
void combine_rows(const CombineRowsArgs& args, const ExecContext& ctx);

/// One number for each route into expert order: of_row[r] = of_route[route_of_row[r]] for
/// r < row_count
///   of_row [R] out; of_route [N, K] in; route_of_row [R] i32 in; row_count [1] i32 in
struct GatherScalarsArgs {
  TensorView of_row;
  ConstTensorView of_route;
  ConstTensorView route_of_row;
  ConstTensorView row_count;
};
void gather_scalars(const GatherScalarsArgs& args, const ExecContext& ctx);

/// And back: of_route[n, k] = of_row[row_of_route[n, k]], 0 for a route without a row
///   of_route [N, K] out, overwritten; of_row [R] in; row_of_route [N, K] i32 in
struct CollectScalarsArgs {
  TensorView of_route;
  ConstTensorView of_row;
  ConstTensorView row_of_route;
};
void collect_scalars(const CollectScalarsArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
