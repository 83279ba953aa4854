#include "ulmus/ops/elementwise.h"

#include <algorithm>

#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops::ref {

namespace {

template <class T>
void fill_with(const FillArgs& args) {
  std::fill_n(args.x.data<T>(), args.x.numel(), static_cast<T>(args.value));
}

}  // namespace

void fill(const FillArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  switch (args.x.dtype()) {
    case DType::kF32:
      return fill_with<float>(args);
    case DType::kF64:
      return fill_with<double>(args);
    case DType::kI32:
      return fill_with<std::int32_t>(args);
    case DType::kI64:
      return fill_with<std::int64_t>(args);
    case DType::kU8:
      return fill_with<std::uint8_t>(args);
  }
}

/// Threaded: every byte stands alone.
void copy(const CopyArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  constexpr std::int64_t kGrainBytes = 65536;
  auto* to = static_cast<std::byte*>(args.y.raw_data());
  const auto* from = static_cast<const std::byte*>(args.x.raw_data());
  ctx.device.pool().for_ranges(args.y.size_bytes(), kGrainBytes,
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 std::copy(from + begin, from + end, to + begin);
                               });
}

void add(const AddArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  dispatch_float(args.y.dtype(), "add", [&]<class T>() {
    T* y = args.y.data<T>();
    const T* a = args.a.data<T>();
    const T* b = args.b.data<T>();
    for (std::int64_t i = 0; i < args.y.numel(); ++i)
      y[i] = a[i] + b[i];
  });
}

}  // namespace ulmus::ops::ref
