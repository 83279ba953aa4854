#include "ulmus/ops/route_rows.h"

#include <algorithm>
#include <vector>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

void gather_rows(const GatherRowsArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  dispatch_float(args.grouped.dtype(), "gather_rows", [&]<class T>() {
    const auto* route_of_row = args.route_of_row.data<std::int32_t>();
    const std::int64_t num_rows = rows_in_use(args.row_count, args.grouped.dim(0));
    for (std::int64_t r = 0; r < num_rows; ++r) {
      const std::int64_t token = route_of_row[r] / args.top_k;
      ULMUS_DCHECK(0 <= token && token < args.rows.dim(0), "token ", token, " of ",
                   args.rows.dim(0));
      std::copy_n(row<T>(args.rows, token), args.rows.dim(1), row<T>(args.grouped, r));
    }
  });
}

void combine_rows(const CombineRowsArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  dispatch_float(args.out.dtype(), "combine_rows", [&]<class T>() {
    std::vector<double> sums(static_cast<std::size_t>(args.out.dim(1)));
    for (std::int64_t n = 0; n < args.out.dim(0); ++n) {
      const auto* rows = row<std::int32_t>(args.row_of_route, n);
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t k = 0; k < args.row_of_route.dim(1); ++k) {
        if (rows[k] < 0) continue;
        ULMUS_DCHECK(rows[k] < args.grouped.dim(0), "row ", rows[k], " of ", args.grouped.dim(0));
        const double weight =
            args.weights.is_empty() ? 1.0 : static_cast<double>(row<T>(args.weights, n)[k]);
        const T* grouped = row<T>(args.grouped, rows[k]);
        for (std::size_t d = 0; d < sums.size(); ++d) {
          sums[d] += weight * static_cast<double>(grouped[d]);
        }
      }
      T* out = row<T>(args.out, n);
      for (std::size_t d = 0; d < sums.size(); ++d)
        out[d] = static_cast<T>(sums[d]);
    }
  });
}

void gather_scalars(const GatherScalarsArgs& args, TensorView /*scratch*/,
                    const ExecContext& /*ctx*/) {
  dispatch_float(args.of_row.dtype(), "gather_scalars", [&]<class T>() {
    const auto* route_of_row = args.route_of_row.data<std::int32_t>();
    const T* of_route = args.of_route.data<T>();
    T* of_row = args.of_row.data<T>();
    const std::int64_t num_rows = rows_in_use(args.row_count, args.of_row.dim(0));
    for (std::int64_t r = 0; r < num_rows; ++r)
      of_row[r] = of_route[route_of_row[r]];
  });
}

void collect_scalars(const CollectScalarsArgs& args, TensorView /*scratch*/,
                     const ExecContext& /*ctx*/) {
  dispatch_float(args.of_route.dtype(), "collect_scalars", [&]<class T>() {
    const auto* row_of_route = args.row_of_route.data<std::int32_t>();
    const T* of_row = args.of_row.data<T>();
    T* of_route = args.of_route.data<T>();
    for (std::int64_t i = 0; i < args.of_route.numel(); ++i) {
      of_route[i] = row_of_route[i] < 0 ? T{0} : of_row[row_of_route[i]];
    }
  });
}

}  // namespace ulmus::ops::ref
