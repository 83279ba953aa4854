#include "ulmus/data/byte_alphabet.h"

#include <algorithm>
#include <numeric>

#include "ulmus/data/unicode_classes.h"

namespace ulmus::data {

namespace {

constexpr std::uint32_t kNumShifted = 68;
constexpr std::uint32_t kNumCharacters = 256 + kNumShifted;

struct Alphabet {
  std::array<std::uint32_t, 256> character{};
  std::array<std::int16_t, kNumCharacters> byte{};  // -1: not of the alphabet
  std::array<std::uint8_t, 256> order{};
};

bool is_visible(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

Alphabet build_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  std::uint32_t shifted = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    alphabet.character[byte] = is_visible(byte) ? byte : shifted++;
    alphabet.byte[alphabet.character[byte]] = static_cast<std::int16_t>(byte);
  }
  std::iota(alphabet.order.begin(), alphabet.order.end(), std::uint8_t{0});
  std::sort(alphabet.order.begin(), alphabet.order.end(), [&](std::uint8_t a, std::uint8_t b) {
    return alphabet.character[a] < alphabet.character[b];
  });
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet kAlphabet = build_alphabet();
  return kAlphabet;
}

}  // namespace

const std::array<std::uint8_t, 256>& byte_order() { return alphabet().order; }

std::string to_symbols(std::string_view bytes) {
  std::string symbols;
  symbols.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    const std::uint32_t character = alphabet().character[static_cast<unsigned char>(byte)];
    if (character < 0x80U) {
      symbols.push_back(static_cast<char>(character));
    } else {
      symbols.push_back(static_cast<char>(0xC0U | (character >> 6U)));
      symbols.push_back(static_cast<char>(0x80U | (character & 0x3FU)));
    }
  }
  return symbols;
}

std::optional<std::string> from_symbols(std::string_view symbols) {
  std::string bytes;
  bytes.reserve(symbols.size());
  for (std::size_t i = 0; i < symbols.size();) {
    const DecodedChar decoded = decode_char(symbols, i);
    if (!decoded.valid || decoded.code_point >= kNumCharacters) return std::nullopt;
    const int byte = alphabet().byte[decoded.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    i += decoded.num_bytes;
  }
  return bytes;
}

}  // namespace ulmus::data
