#include "ulmus/ops/move_segments.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/streaming.h"

namespace ulmus::ops::cpu {

namespace {

/// A call in bytes. Rows lie without gaps, so that a segment is one piece on both sides.
struct Move {
  std::byte* out;
  const std::byte* in;
  const std::int64_t* segments;
  std::int64_t num_segments;
  std::int64_t row_bytes;
  bool streams;

  RowSegment segment(std::int64_t index) const {
    const std::int64_t* fields = segments + index * RowSegment::kFields;
    return {fields[0], fields[1], fields[2]};
  }
};

void copy(const Move& move, std::int64_t to_row, std::int64_t from_row, std::int64_t rows) {
  std::byte* to = move.out + to_row * move.row_bytes;
  const std::byte* from = move.in + from_row * move.row_bytes;
  const std::int64_t bytes = rows * move.row_bytes;
  if (move.streams) {
    stream_copy(to, from, bytes);
  } else {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

/// Rows [begin, end) of all segments one after the other.
void move_range(const Move& move, std::int64_t begin, std::int64_t end) {
  std::int64_t first = 0;  // of the segment
  for (std::int64_t i = 0; i < move.num_segments && first < end; ++i) {
    const RowSegment segment = move.segment(i);
    const std::int64_t skipped = std::max<std::int64_t>(begin - first, 0);
    const std::int64_t rows = std::min(segment.rows, end - first) - skipped;
    if (rows > 0) copy(move, segment.out_begin + skipped, segment.in_begin + skipped, rows);
    first += segment.rows;
  }
  if (move.streams) end_streams();
}

}  // namespace

/// Threads own ranges of rows and not of segments, of which one may hold most of the rows.
void move_segments(const MoveSegmentsArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  const std::int64_t width = args.out.rank() == 1 ? 1 : args.out.dim(1);
  Move move{.out = static_cast<std::byte*>(args.out.raw_data()),
            .in = static_cast<const std::byte*>(args.in.raw_data()),
            .segments = args.segments.data<std::int64_t>(),
            .num_segments = args.segments.dim(0),
            .row_bytes = width * size_of(args.out.dtype()),
            .streams = false};
  std::int64_t num_rows = 0;
  for (std::int64_t i = 0; i < move.num_segments; ++i) {
    const RowSegment s = move.segment(i);
    ULMUS_DCHECK(s.rows >= 0 && 0 <= s.out_begin && s.out_begin <= args.out.dim(0) - s.rows &&
                     0 <= s.in_begin && s.in_begin <= args.in.dim(0) - s.rows,
                 "segment ", i, " takes ", s.rows, " rows from ", s.in_begin, " of ",
                 args.in.dim(0), " to ", s.out_begin, " of ", args.out.dim(0));
    num_rows += s.rows;
  }
  move.streams = 2 * num_rows * move.row_bytes >= kStreamedBytes;
  ctx.device.pool().for_ranges(
      num_rows, row_grain(width),
      [&](std::int64_t begin, std::int64_t end, int) { move_range(move, begin, end); });
}

}  // namespace ulmus::ops::cpu
