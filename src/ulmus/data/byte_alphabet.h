#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ulmus::data {

/// The printable alphabet in which byte-level BPE vocabularies are written (GPT-2): a byte that is
/// a visible Latin-1 character (0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF) stands for itself; the other 68,
/// in rising order, are U+0100, U+0101, ...

/// Bytes in the order of their characters: the order of the single-byte tokens in a vocabulary.
const std::array<std::uint8_t, 256>& byte_order();

/// The token of these bytes as a vocabulary file writes it.
std::string to_symbols(std::string_view bytes);

/// The reverse; nothing when a character is not of the alphabet.
std::optional<std::string> from_symbols(std::string_view symbols);

}  // namespace ulmus::data
