#include "ulmus/data/unicode_classes.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/data/pcre2_oracle.h"
#include "tests/data/test_text.h"

namespace ulmus::data {
namespace {

TEST(UnicodeClasses, AreThoseOfPcre2WhereverItKnowsTheCharacter) {
  const Pcre2Pattern letter("\\p{L}");
  const Pcre2Pattern number("\\p{N}");
  const Pcre2Pattern space("\\s");
  const Pcre2Pattern unassigned("\\p{Cn}");
  int compared = 0;
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    // PCRE2's \s takes U+180E for white space as old Unicode versions did; the property
    // White_Space, GPT-2's and Hugging Face's pattern do not.
    if (c == 0x180E) continue;
    std::string text;
    append_utf8(text, c);
    if (unassigned.matches(text)) continue;  // PCRE2 may be of an older Unicode than our table
    const CharClass expected = letter.matches(text)   ? CharClass::kLetter
                               : number.matches(text) ? CharClass::kNumber
                               : space.matches(text)  ? CharClass::kSpace
                                                      : CharClass::kOther;
    ASSERT_EQ(char_class(c), expected) << "code point " << c;
    ++compared;
  }
  EXPECT_GT(compared, 250000);
}

TEST(UnicodeClasses, KnowsWhatIsNewerThanTheOracle) {
  EXPECT_EQ(char_class(0xA7CB), CharClass::kLetter);  // Unicode 16.0
  EXPECT_EQ(char_class(0x180E), CharClass::kOther);
  EXPECT_EQ(char_class(0x110000), CharClass::kOther);
  EXPECT_EQ(char_class(0xFFFFFFFF), CharClass::kOther);
}

TEST(DecodeChar, GivesBackEveryCodePoint) {
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    append_utf8(text, c);
    const DecodedChar decoded = decode_char(text, 0);
    if (c >= 0xD800 && c < 0xE000) {
      ASSERT_FALSE(decoded.valid) << "surrogate " << c;
      ASSERT_EQ(decoded.num_bytes, 1U);
      continue;
    }
    ASSERT_TRUE(decoded.valid) << c;
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.num_bytes, text.size());
    const std::string cut = text.substr(0, text.size() - 1);
    if (!cut.empty()) {
      ASSERT_FALSE(decode_char(cut, 0).valid) << c;
    }
  }
}

TEST(DecodeChar, RefusesOverlongStrayAndTooLarge) {
  for (const std::string text :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82(",
        "\xF0\x9F\x98("}) {
    EXPECT_FALSE(decode_char(text, 0).valid) << text;
    EXPECT_EQ(decode_char(text, 0).num_bytes, 1U);
  }
}

}  // namespace
}  // namespace ulmus::data
