#include "ulmus/checkpoint/finite.h"

#include <algorithm>
#include <cstring>

#include "ulmus/base/check.h"

namespace ulmus::checkpoint {

namespace {

/// Elements that are looked at together: one verdict a run keeps the loop free of branches.
constexpr std::int64_t kRun = 1024;

template <class Bits, Bits kExponent>
bool has_nonfinite(const std::byte* from, std::int64_t count) {
  Bits bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, from + i * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
    bad |= static_cast<Bits>((bits & kExponent) == kExponent);
  }
  return bad != 0;
}

template <class Bits, Bits kExponent>
std::int64_t find_nonfinite(std::span<const std::byte> bytes) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Bits));
  const std::int64_t count = static_cast<std::int64_t>(bytes.size()) / kSize;
  for (std::int64_t begin = 0; begin < count; begin += kRun) {
    const std::int64_t end = std::min(begin + kRun, count);
    if (!has_nonfinite<Bits, kExponent>(bytes.data() + begin * kSize, end - begin)) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (has_nonfinite<Bits, kExponent>(bytes.data() + i * kSize, 1)) return i;
    }
  }
  return -1;
}

}  // namespace

std::int64_t first_nonfinite(std::span<const std::byte> bytes, DType dtype) {
  ULMUS_CHECK(is_float(dtype), "dtype ", dtype);
  return dtype == DType::kF32 ? find_nonfinite<std::uint32_t, 0x7f800000U>(bytes)
                              : find_nonfinite<std::uint64_t, 0x7ff0000000000000U>(bytes);
}

}  // namespace ulmus::checkpoint
