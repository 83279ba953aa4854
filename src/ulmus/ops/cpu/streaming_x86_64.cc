#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ulmus/ops/cpu/streaming.h"

namespace ulmus::ops::cpu {

namespace {

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kHalfLine = 32;

__m256i load_half_line(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

void stream_line(std::byte* to, const std::byte* from) {
  const __m256i low = load_half_line(from);
  const __m256i high = load_half_line(from + kHalfLine);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), low);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to + kHalfLine), high);
}

}  // namespace

void stream_copy(void* to, const void* from, std::int64_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64);
  const std::int64_t head = std::min(bytes, (kLineBytes - misaligned) % kLineBytes);
  std::memcpy(out, in, static_cast<std::size_t>(head));
  std::int64_t i = head;
  for (; i + 2 * kLineBytes <= bytes; i += 2 * kLineBytes) {
    stream_line(out + i, in + i);
    stream_line(out + i + kLineBytes, in + i + kLineBytes);
  }
  for (; i + kLineBytes <= bytes; i += kLineBytes)
    stream_line(out + i, in + i);
  std::memcpy(out + i, in + i, static_cast<std::size_t>(bytes - i));
}

void end_streams() { _mm_sfence(); }

}  // namespace ulmus::ops::cpu
