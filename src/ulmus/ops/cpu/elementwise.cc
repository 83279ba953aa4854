#include "ulmus/ops/elementwise.h"

#include <algorithm>

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/grain.h"
#include "ulmus/ops/cpu/simd.h"

namespace ulmus::ops::cpu {

namespace {

template <class T>
void fill_with(TensorView x, double value, ThreadPool& pool) {
  T* to = x.data<T>();
  const T converted = static_cast<T>(value);
  pool.for_ranges(x.numel(), kMinElements, [=](std::int64_t begin, std::int64_t end, int) {
    std::fill(to + begin, to + end, converted);
  });
}

}  // namespace

void fill(const FillArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  ThreadPool& pool = ctx.device.pool();
  switch (args.x.dtype()) {
    case DType::kF32:
      return fill_with<float>(args.x, args.value, pool);
    case DType::kF64:
      return fill_with<double>(args.x, args.value, pool);
    case DType::kI32:
      return fill_with<std::int32_t>(args.x, args.value, pool);
    case DType::kI64:
      return fill_with<std::int64_t>(args.x, args.value, pool);
    case DType::kU8:
      return fill_with<std::uint8_t>(args.x, args.value, pool);
  }
}

void add(const AddArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  float* y = args.y.data<float>();
  const float* a = args.a.data<float>();
  const float* b = args.b.data<float>();
  ctx.device.pool().for_ranges(args.y.numel(), kMinElements,
                               [=](std::int64_t begin, std::int64_t end, int) {
                                 std::int64_t i = begin;
                                 for (; i + kLanes <= end; i += kLanes)
                                   store(y + i, load(a + i) + load(b + i));
                                 for (; i < end; ++i)
                                   y[i] = a[i] + b[i];
                               });
}

}  // namespace ulmus::ops::cpu
