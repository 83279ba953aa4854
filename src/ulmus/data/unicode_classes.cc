#include "ulmus/data/unicode_classes.h"

#include <initializer_list>
#include <vector>

namespace ulmus::data {

namespace {

constexpr std::uint32_t kNumCodePoints = 0x110000;

constexpr CodePointRange kSpaces[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

std::vector<CharClass> build_classes() {
  std::vector<CharClass> classes(kNumCodePoints, CharClass::kOther);
  const auto paint = [&](std::span<const CodePointRange> ranges, CharClass value) {
    for (const auto [first, last] : ranges) {
      for (std::uint32_t i = first; i <= last; ++i)
        classes[i] = value;
    }
  };
  paint(letter_ranges(), CharClass::kLetter);
  paint(number_ranges(), CharClass::kNumber);
  paint(kSpaces, CharClass::kSpace);
  return classes;
}

bool is_continuation(unsigned byte) { return (byte & 0xC0U) == 0x80U; }

}  // namespace

CharClass char_class(char32_t code_point) {
  static const std::vector<CharClass> kClasses = build_classes();
  return code_point < kNumCodePoints ? kClasses[code_point] : CharClass::kOther;
}

DecodedChar decode_char(std::string_view text, std::size_t position) {
  const std::size_t left = text.size() - position;
  const auto byte = [&](std::size_t i) -> unsigned {
    return static_cast<unsigned char>(text[position + i]);
  };
  const unsigned lead = byte(0);
  const DecodedChar invalid{0, 1, false};
  if (lead < 0x80U) return {lead, 1, true};
  const std::size_t length = lead < 0xC2U   ? 0
                             : lead < 0xE0U ? 2
                             : lead < 0xF0U ? 3
                             : lead < 0xF5U ? 4
                                            : 0;
  if (length == 0 || length > left) return invalid;
  std::uint32_t value = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte(i))) return invalid;
    value = (value << 6U) | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && value < 0x800U) || (length == 4 && value < 0x10000U);
  const bool surrogate = value >= 0xD800U && value < 0xE000U;
  if (overlong || surrogate || value >= kNumCodePoints) return invalid;
  return {value, length, true};
}

}  // namespace ulmus::data
