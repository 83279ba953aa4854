#include "ulmus/ops/rope.h"

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/ref/rows.h"

namespace ulmus::ops::ref {

namespace {

/// One head; y may be x.
template <class T>
void rotate(T* y, const T* x, const T* angles, std::int64_t pairs, double sign) {
  for (std::int64_t p = 0; p < pairs; ++p) {
    const auto cosine = static_cast<double>(angles[p]);
    const double sine = sign * static_cast<double>(angles[pairs + p]);
    const auto first = static_cast<double>(x[p]);
    const auto second = static_cast<double>(x[pairs + p]);
    y[p] = static_cast<T>(first * cosine - second * sine);
    y[pairs + p] = static_cast<T>(second * cosine + first * sine);
  }
}

}  // namespace

void rope(const RopeArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  const double sign = args.direction == RopeDirection::kForward ? 1.0 : -1.0;
  dispatch_float(args.x.dtype(), "rope", [&]<class T>() {
    const auto* positions = args.positions.data<std::int32_t>();
    const std::int64_t width = args.x.dim(2);
    for (std::int64_t n = 0; n < args.x.dim(0); ++n) {
      ULMUS_DCHECK(0 <= positions[n] && positions[n] < args.table.dim(0), "position ", positions[n],
                   " of ", args.table.dim(0));
      const T* angles = row<T>(args.table, positions[n]);
      for (std::int64_t h = 0; h < args.x.dim(1); ++h) {
        rotate(row<T>(args.y, n) + h * width, row<T>(args.x, n) + h * width, angles, width / 2,
               sign);
      }
    }
  });
}

}  // namespace ulmus::ops::ref
