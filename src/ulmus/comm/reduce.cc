#include "ulmus/comm/reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "ulmus/base/check.h"

namespace ulmus::comm {

namespace {

/// Elements that stay in the first cache while all ranks' values are added to them.
constexpr std::int64_t kBlock = 1024;
/// Bytes of one source from which on waking the threads costs less than they save.
constexpr std::int64_t kThreadedBytes = std::int64_t{256} << 10U;
constexpr std::int64_t kGrain = 4096;
/// Small enough that memcpy does not write past the caches: what is copied is read next.
constexpr std::int64_t kCopyPiece = std::int64_t{128} << 10U;

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Unsigned, because signed overflow is undefined.
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

// Written so that a NaN on either side wins: no comparison with it holds.
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

struct Max {
  template <class T>
  static T apply(T a, T b) {
    return b > a || b != b ? b : a;
  }
};

template <class Op, class T>
void accumulate(T* __restrict total, const T* __restrict values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    total[i] = Op::apply(total[i], values[i]);
  }
}

/// Elements [begin, end) of reduce().
template <class Op, class T>
void reduce_typed(std::byte* out, std::span<const std::byte* const> sources, std::int64_t begin,
                  std::int64_t end) {
  std::array<T, kBlock> total;
  for (std::int64_t block = begin; block < end; block += kBlock) {
    const std::int64_t length = std::min(kBlock, end - block);
    const auto num_bytes = static_cast<std::size_t>(length) * sizeof(T);
    const auto offset = static_cast<std::size_t>(block) * sizeof(T);
    std::memcpy(total.data(), sources[0] + offset, num_bytes);
    for (const std::byte* source : sources.subspan(1)) {
      accumulate<Op>(total.data(), reinterpret_cast<const T*>(source + offset), length);
    }
    std::memcpy(out + offset, total.data(), num_bytes);
  }
}

template <class T>
void reduce_as(std::byte* out, std::span<const std::byte* const> sources, ReduceOp op,
               std::int64_t begin, std::int64_t end) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce_typed<Sum, T>(out, sources, begin, end);
    case ReduceOp::kMin:
      return reduce_typed<Min, T>(out, sources, begin, end);
    case ReduceOp::kMax:
      return reduce_typed<Max, T>(out, sources, begin, end);
  }
}

void reduce_range(std::byte* out, std::span<const std::byte* const> sources, DType dtype,
                  ReduceOp op, std::int64_t begin, std::int64_t end) {
  switch (dtype) {
    case DType::kF32:
      return reduce_as<float>(out, sources, op, begin, end);
    case DType::kF64:
      return reduce_as<double>(out, sources, op, begin, end);
    case DType::kI64:
      return reduce_as<std::int64_t>(out, sources, op, begin, end);
    default:
      fail("combining ranks' values: dtype ", dtype, " is none of f32, f64, i64");
  }
}

}  // namespace

void reduce(std::byte* out, std::span<const std::byte* const> sources, DType dtype, ReduceOp op,
            std::int64_t n) {
  reduce_range(out, sources, dtype, op, 0, n);
}

void reduce_on(Device& device, std::byte* out, std::span<const std::byte* const> sources,
               DType dtype, ReduceOp op, std::int64_t n) {
  if (n * size_of(dtype) < kThreadedBytes) return reduce_range(out, sources, dtype, op, 0, n);
  device.pool().for_ranges(n, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    reduce_range(out, sources, dtype, op, begin, end);
  });
}

void copy_on(Device& device, std::byte* to, const std::byte* from, std::int64_t num_bytes) {
  const auto copy = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t piece = begin; piece < end; piece += kCopyPiece) {
      const std::int64_t length = std::min(kCopyPiece, end - piece);
      std::memcpy(to + piece, from + piece, static_cast<std::size_t>(length));
    }
  };
  if (num_bytes == 0) return;
  if (num_bytes < kThreadedBytes) return copy(0, num_bytes, 0);
  device.pool().for_ranges(num_bytes, kGrain, copy);
}

}  // namespace ulmus::comm
