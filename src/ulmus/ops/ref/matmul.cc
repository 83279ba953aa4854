#include "ulmus/ops/matmul.h"

#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops::ref {

namespace {

/// A matrix as two strides, so that transposing is exchanging them.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
  double at(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(data[row * row_stride + column * column_stride]);
  }
};

template <class T>
Matrix<T> plain(const ConstTensorView& view) {
  return {view.data<T>(), view.stride(0), 1};
}

template <class T>
Matrix<T> transposed(const ConstTensorView& view) {
  return {view.data<T>(), 1, view.stride(0)};
}

}  // namespace

void matmul(const MatmulArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  dispatch_float(args.out.dtype(), "matmul", [&]<class T>() {
    const Matrix<T> a = args.form == MatmulForm::kTN ? transposed<T>(args.a) : plain<T>(args.a);
    const Matrix<T> b = args.form == MatmulForm::kNT ? transposed<T>(args.b) : plain<T>(args.b);
    const std::int64_t depth = args.a.dim(args.form == MatmulForm::kTN ? 0 : 1);
    const bool adds = args.accumulate == Accumulate::kAdd;
    if (adds && depth == 0) return;  // not even -0 becomes 0
    T* out = args.out.data<T>();
    for (std::int64_t m = 0; m < args.out.dim(0); ++m) {
      for (std::int64_t n = 0; n < args.out.dim(1); ++n) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += a.at(m, k) * b.at(k, n);
        T& value = out[m * args.out.stride(0) + n];
        if (adds) sum += static_cast<double>(value);
        value = static_cast<T>(sum);
      }
    }
  });
}

}  // namespace ulmus::ops::ref
