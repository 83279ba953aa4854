#include "ulmus/ops/move_segments.h"

#include <algorithm>
#include <vector>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

void move_segments(const MoveSegmentsArgs& args, TensorView /*scratch*/,
                   const ExecContext& /*ctx*/) {
  dispatch_float(args.out.dtype(), "move_segments", [&]<class T>() {
    const std::int64_t out_rows = args.out.dim(0);
    const std::int64_t in_rows = args.in.dim(0);
    const std::int64_t width = args.out.rank() == 1 ? 1 : args.out.dim(1);
    std::vector<bool> is_written(static_cast<std::size_t>(out_rows));
    for (std::int64_t i = 0; i < args.segments.dim(0); ++i) {
      const auto* fields = row<std::int64_t>(args.segments, i);
      const RowSegment s{fields[0], fields[1], fields[2]};
      ULMUS_DCHECK(s.rows >= 0 && 0 <= s.out_begin && s.out_begin <= out_rows - s.rows &&
                       0 <= s.in_begin && s.in_begin <= in_rows - s.rows,
                   "segment ", i, " takes ", s.rows, " rows from ", s.in_begin, " of ", in_rows,
                   " to ", s.out_begin, " of ", out_rows);
      for (std::int64_t r = 0; r < s.rows; ++r) {
        const auto to = static_cast<std::size_t>(s.out_begin + r);
        ULMUS_DCHECK(!is_written[to], "segment ", i, " is not the first to write row ", to);
        is_written[to] = true;
        std::copy_n(row<T>(args.in, s.in_begin + r), width, row<T>(args.out, s.out_begin + r));
      }
    }
  });
}

}  // namespace ulmus::ops::ref
