#include "ulmus/data/pretokenizer.h"

#include <array>
#include <cstdint>

#include "ulmus/data/unicode_classes.h"

namespace ulmus::data {

namespace {

struct ClassifiedChar {
  CharClass char_class;
  std::size_t num_bytes;
};

constexpr std::array<CharClass, 128> build_ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool number = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    classes[c] = letter   ? CharClass::kLetter
                 : number ? CharClass::kNumber
                 : space  ? CharClass::kSpace
                          : CharClass::kOther;
  }
  return classes;
}

constexpr std::array<CharClass, 128> kAsciiClasses = build_ascii_classes();

ClassifiedChar classify(std::string_view text, std::size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 128) return {kAsciiClasses[byte], 1};
  const DecodedChar decoded = decode_char(text, position);
  if (!decoded.valid) return {CharClass::kOther, 1};
  return {char_class(decoded.code_point), decoded.num_bytes};
}

/// End of the run of characters of one class that begins at `position`.
std::size_t run_end(std::string_view text, std::size_t position, CharClass wanted) {
  while (position < text.size()) {
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte < 128) {
      if (kAsciiClasses[byte] != wanted) return position;
      ++position;
      continue;
    }
    const ClassifiedChar next = classify(text, position);
    if (next.char_class != wanted) return position;
    position += next.num_bytes;
  }
  return position;
}

/// Bytes of 's 't 're 've 'm 'll 'd at `begin`, 0 when none is there.
std::size_t contraction_bytes(std::string_view text, std::size_t begin) {
  if (text[begin] != '\'' || begin + 1 >= text.size()) return 0;
  const char first = text[begin + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (begin + 2 >= text.size()) return 0;
  const char second = text[begin + 2];
  const bool three = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
  return three ? 3 : 0;
}

/// \s+(?!\S)|\s+ : all white space at the end of the text, else all but the last character of it,
/// which goes with the next word if it can; a single one alone.
std::size_t white_space_end(std::string_view text, std::size_t begin) {
  std::size_t last_begin = begin;
  std::size_t position = begin;
  while (position < text.size()) {
    const ClassifiedChar next = classify(text, position);
    if (next.char_class != CharClass::kSpace) {
      return last_begin == begin ? position : last_begin;
    }
    last_begin = position;
    position += next.num_bytes;
  }
  return position;
}

}  // namespace

std::size_t word_end(std::string_view text, std::size_t begin) {
  if (const std::size_t bytes = contraction_bytes(text, begin); bytes > 0) return begin + bytes;
  const ClassifiedChar first = classify(text, begin);
  if (first.char_class != CharClass::kSpace) {
    return run_end(text, begin + first.num_bytes, first.char_class);
  }
  if (text[begin] == ' ' && begin + 1 < text.size()) {
    const ClassifiedChar second = classify(text, begin + 1);
    if (second.char_class != CharClass::kSpace) {
      return run_end(text, begin + 1 + second.num_bytes, second.char_class);
    }
  }
  return white_space_end(text, begin);
}

std::size_t safe_cut(std::string_view text, std::size_t from) {
  for (std::size_t i = from < 1 ? 1 : from; i < text.size(); ++i) {
    if (text[i] == ' ' && text[i - 1] > ' ' && text[i - 1] <= '~') return i;
  }
  return text.size();
}

}  // namespace ulmus::data
