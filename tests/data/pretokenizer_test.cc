#include "ulmus/data/pretokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/data/pcre2_oracle.h"
#include "tests/data/test_text.h"

namespace ulmus::data {
namespace {

// \s written out, because PCRE2's own takes U+180E for white space.
const char* const kPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"
    "| ?[^\\x{9}-\\x{D} \\x{85}\\p{Z}\\p{L}\\p{N}]+"
    "|[\\x{9}-\\x{D} \\x{85}\\p{Z}]+(?![^\\x{9}-\\x{D} \\x{85}\\p{Z}])"
    "|[\\x{9}-\\x{D} \\x{85}\\p{Z}]+";

std::vector<std::size_t> cuts(std::string_view text) {
  std::vector<std::size_t> ends;
  std::size_t end = 0;
  for_each_word(text, [&](std::string_view word) {
    end += word.size();
    ends.push_back(end);
  });
  return ends;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  for_each_word(text, [&](std::string_view word) { found.emplace_back(word); });
  return found;
}

using Words = std::vector<std::string>;

TEST(Pretokenizer, CutsByHand) {
  EXPECT_EQ(words("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(words("it's they'll 'S"), (Words{"it", "'s", " they", "'ll", " '", "S"}));
  EXPECT_EQ(words("a  b\n\nc \n"), (Words{"a", " ", " b", "\n", "\n", "c", " \n"}));
  EXPECT_EQ(words("x12 3.5!"), (Words{"x", "12", " 3", ".", "5", "!"}));
  EXPECT_EQ(words("   "), (Words{"   "}));
  EXPECT_TRUE(words("").empty());
}

TEST(Pretokenizer, IsTheOracleOnRealText) {
  const Pcre2Pattern oracle(kPattern);
  const std::string text = austen_excerpt();
  EXPECT_EQ(cuts(text), oracle.cuts(text));
}

TEST(Pretokenizer, IsTheOracleOnRandomText) {
  const Pcre2Pattern oracle(kPattern);
  const Pcre2Pattern known("\\P{Cn}*");  // PCRE2 may be of an older Unicode than our table
  TestRandom random("pretokenizer");
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_text(random, 24);
    if (!known.matches(text)) continue;
    ASSERT_EQ(cuts(text), oracle.cuts(text)) << "\"" << text << "\"";
  }
}

TEST(Pretokenizer, CoversAnyBytesAndTakesAnInvalidByteForOther) {
  TestRandom random("pretokenizer bytes");
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_bytes(random, 32);
    std::string joined;
    for_each_word(text, [&](std::string_view word) {
      ASSERT_FALSE(word.empty());
      joined += word;
    });
    ASSERT_EQ(joined, text);
  }
  EXPECT_EQ(words("a\xFF\x80 \xC3(b"), (Words{"a", "\xFF\x80", " \xC3(", "b"}));
}

TEST(Pretokenizer, SafeCutsDoNotChangeTheWords) {
  TestRandom random("safe cut");
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_text(random, 40);
    const Words whole = words(text);
    const std::size_t cut = safe_cut(text, random.below(40));
    Words parts = words(std::string_view(text).substr(0, cut));
    for (std::string& word : words(std::string_view(text).substr(cut))) {
      parts.push_back(std::move(word));
    }
    ASSERT_EQ(parts, whole);
  }
  EXPECT_EQ(safe_cut("ab cd ef", 3), 5U);
  EXPECT_EQ(safe_cut("abcdef", 2), 6U);
}

}  // namespace
}  // namespace ulmus::data
