#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ulmus/base/file.h"
#include "ulmus/base/philox.h"

namespace ulmus::data {

inline std::filesystem::path test_data(std::string_view name) {
  return std::filesystem::path(ULMUS_TEST_DATA) / name;
}

inline std::string austen_excerpt() { return read_file(test_data("austen-excerpt.txt")); }

/// A row of random numbers for a test.
class TestRandom {
 public:
  explicit TestRandom(std::string_view name) : key_(philox_key(1, RandomPurpose::kTest, name)) {}

  /// Uniform in [0, n), n below 2^32.
  std::uint32_t below(std::uint32_t n) {
    const std::uint32_t bits = philox(key_, {counter_++, 0, 0, 0})[0];
    return static_cast<std::uint32_t>((std::uint64_t{bits} * n) >> 32U);
  }

 private:
  PhiloxKey key_;
  std::uint32_t counter_ = 0;
};

inline void append_utf8(std::string& out, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80U) return put(c);
  if (c < 0x800U) {
    put(0xC0U | (c >> 6U));
  } else if (c < 0x10000U) {
    put(0xE0U | (c >> 12U));
    put(0x80U | ((c >> 6U) & 0x3FU));
  } else {
    put(0xF0U | (c >> 18U));
    put(0x80U | ((c >> 12U) & 0x3FU));
    put(0x80U | ((c >> 6U) & 0x3FU));
  }
  put(0x80U | (c & 0x3FU));
}

/// Up to `max_chars` characters, most of them of the kinds that the pre-tokeniser tells apart.
inline std::string random_text(TestRandom& random, std::uint32_t max_chars) {
  static constexpr std::string_view kFrequent = "  \t\n\n'''stremvldaZ09.,-_";
  static constexpr std::uint32_t kUnusual[] = {0xA0,   0x85,   0xE9,    0x4F60,  0x3000, 0x661,
                                               0xBD,   0x2028, 0x301,   0x1F600, 0x200D, 0x2003,
                                               0x2160, 0xAA,   0x1D400, 0x10FFFF};
  std::string text;
  const std::uint32_t length = random.below(max_chars + 1);
  for (std::uint32_t i = 0; i < length; ++i) {
    const std::uint32_t kind = random.below(8);
    if (kind < 5) {
      text.push_back(kFrequent[random.below(kFrequent.size())]);
    } else if (kind < 7) {
      append_utf8(text, kUnusual[random.below(std::size(kUnusual))]);
    } else {
      append_utf8(text, random.below(0xD800));
    }
  }
  return text;
}

inline std::string random_bytes(TestRandom& random, std::uint32_t max_bytes) {
  std::string bytes(random.below(max_bytes + 1), '\0');
  for (char& byte : bytes)
    byte = static_cast<char>(random.below(256));
  return bytes;
}

/// `text` with one random change: a byte replaced, bytes cut out, or the end cut off.
inline std::string damaged(std::string text, TestRandom& random) {
  const std::uint32_t place = random.below(static_cast<std::uint32_t>(text.size()));
  switch (random.below(4)) {
    case 0:
      return text.substr(0, place);
    case 1:
      return text.erase(place, 1 + random.below(20));
    case 2:
      text[place] = static_cast<char>(text[place] ^ (1 << random.below(8)));
      return text;
    default:
      text[place] = static_cast<char>(random.below(256));
      return text;
  }
}

}  // namespace ulmus::data
