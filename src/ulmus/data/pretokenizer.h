#pragma once

#include <cstddef>
#include <string_view>

namespace ulmus::data {

/// The GPT-2 pre-tokenisation: cuts a text into words, leaving nothing out. The same cuts as the
/// pattern
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// with the classes of unicode_classes.h (pattern: Radford et al. 2019, "Language models are
/// unsupervised multitask learners", in the form Hugging Face's ByteLevel uses).
///
/// A byte that is not part of a valid UTF-8 sequence is a character of its own of the class
/// "other", so any byte string is cut, and byte-level BPE gives it back unchanged.

/// End of the word that begins at `begin`; `begin` < text.size() must be a word's beginning.
std::size_t word_end(std::string_view text, std::size_t begin);

/// Calls visit(std::string_view word) for every word in order.
template <class Visit>
void for_each_word(std::string_view text, Visit&& visit) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(text, begin);
    visit(text.substr(begin, end - begin));
    begin = end;
  }
}

/// The first position >= `from` at which a text may be cut so that the words of the two parts are
/// the words of the whole: before an ASCII space that follows a printable ASCII character (no word
/// goes on over such a place, and none looks back). text.size() when there is none.
std::size_t safe_cut(std::string_view text, std::size_t from);

}  // namespace ulmus::data
