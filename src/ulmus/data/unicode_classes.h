#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ulmus::data {

/// The classes of characters that the GPT-2 pre-tokenisation pattern tells apart:
/// \p{L} (general category L*), \p{N} (N*), \s (property White_Space), everything else.
/// Of Unicode 16.0, whatever libraries the machine has: token ids must not depend on them.
enum class CharClass : std::uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

/// Class of a code point; kOther beyond U+10FFFF and for code points that 16.0 leaves unassigned.
CharClass char_class(char32_t code_point);

/// First and last code point, both inside.
struct CodePointRange {
  std::uint32_t first;
  std::uint32_t last;
};
std::span<const CodePointRange> letter_ranges();
std::span<const CodePointRange> number_ranges();

/// One character of a text that should be UTF-8 but need not be.
struct DecodedChar {
  char32_t code_point;    ///< meaningless unless valid
  std::size_t num_bytes;  ///< 1 for a byte that begins no valid sequence
  bool valid;
};

/// Decodes the character at text[position]; position < text.size(). Strict (RFC 3629): an overlong
/// form, a surrogate, a value beyond U+10FFFF, a stray or missing continuation byte make the byte
/// at `position` alone an invalid character.
DecodedChar decode_char(std::string_view text, std::size_t position);

}  // namespace ulmus::data
