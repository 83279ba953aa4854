#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// Layout of an index file (docs/formats/token-file.md), shared by its reader and its writer:
///
///   char[8] magic | u64 version | u64 tokens | u64 documents | u64 end[documents] | u64 XXH3-64 of
///   everything before
namespace ulmus::data {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and are used where they lie");

inline constexpr char kIndexMagic[8] = {'U', 'L', 'M', 'U', 'S', 'I', 'D', 'X'};
inline constexpr std::uint64_t kIndexVersion = 1;
inline constexpr std::size_t kIndexHeaderBytes = 32;
inline constexpr std::size_t kIndexHashBytes = 8;

/// The little-endian number at a place that need not be aligned.
template <class T>
T load_number(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace ulmus::data
