#pragma once

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// A row of the index table of move_segments.
struct RowSegment {
  static constexpr std::int64_t kFields = 3;
  std::int64_t out_begin = 0;
  std::int64_t in_begin = 0;
  std::int64_t rows = 0;
};

/// Copies segments of rows to other places: rows that came by sender into expert order, and back.
///
///   out[out_begin + i, :] = in[in_begin + i, :]   for 0 <= i < rows of every segment
///
///   out       [R_out, D]  out; rows of the segments overwritten, others left alone
///   in        [R_in, D]   in
///   segments  [n, 3]      i64 in, on the device: out_begin, in_begin, rows; a segment may have no
///                         rows; segments share no row of out, but may share rows of in
/// Or one number for each row: out [R_out], in [R_in]. One float dtype, all contiguous.
struct MoveSegmentsArgs {
  TensorView out;
  ConstTensorView in;
  ConstTensorView segments;
  std::int64_t booked_rows = 0;  ///< rows of all segments as the host knows them, for the meter
};
void move_segments(const MoveSegmentsArgs& args, const ExecContext& ctx);

}  // namespace ulmus::ops
