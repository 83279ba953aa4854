#include "ulmus/base/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/base/philox.h"

namespace ulmus {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  return test::message_of<InputError>([&] { parse_strict_json(text, "here.json"); });
}

TEST(StrictJson, RefusesWhatALenientParserLetsPass) {
  EXPECT_THAT(refusal(R"({"a": 1, "b": 2, "a": 3})"), HasSubstr("here.json: key \"a\" is given"));
  EXPECT_THAT(refusal(R"({"x": [{"a": 1, "a": 1}]})"), HasSubstr("\"a\" is given twice"));
  EXPECT_THAT(refusal(std::string("{}\0", 3)), HasSubstr("NUL"));
  EXPECT_THAT(refusal("{} x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("[1e999]"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
  EXPECT_EQ(refusal(R"({"a": {"a": 1}, "b": {"a": 2}})"), "");
}

TEST(StrictJson, MessagesAreShortAndPrintable) {
  const std::string message = refusal("\"" + std::string(100'000, '\x02'));
  EXPECT_LT(message.size(), 300);
  EXPECT_EQ(message.find('\x02'), std::string::npos);
  EXPECT_EQ(printable("a\x1b[31m\xff"), "\"a\\x1b[31m\\xff\"");
  EXPECT_EQ(printable(std::string(500, 'n')).size(), 125);
}

TEST(StrictJson, KeysAreCheckedByName) {
  const nlohmann::json value = {{"step", 1}, {"tokns", 2}};
  EXPECT_THAT(test::message_of<InputError>([&] { check_keys(value, {"step", "tokens"}, "m"); }),
              HasSubstr("m: key \"tokens\" is missing"));
  EXPECT_THAT(test::message_of<InputError>([&] { check_keys(value, {"step"}, "m"); }),
              HasSubstr("m: unknown key \"tokns\""));
}

TEST(StrictJson, CountsAreWholeNumbersOf63Bits) {
  EXPECT_EQ(count_value(nlohmann::json::parse("9223372036854775807"), "n"), INT64_MAX);
  for (const char* text :
       {"9223372036854775808", "-1", "1.0", "\"1\"", "1e3", "null", "[]", "18446744073709551616"}) {
    EXPECT_THROW(count_value(nlohmann::json::parse(text), "n"), InputError) << text;
  }
}

double read_back(double value) { return nlohmann::json::parse(json_double(value)).get<double>(); }

TEST(JsonDouble, ReadsBackBitForBit) {
  using Limits = std::numeric_limits<double>;
  const PhiloxKey key = philox_key(1, RandomPurpose::kTest, "doubles");
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                0.1,
                                1e22,
                                1e23,
                                123456789012345678.0,
                                Limits::min(),
                                Limits::max(),
                                Limits::lowest(),
                                Limits::denorm_min(),
                                -Limits::denorm_min()};
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const PhiloxCounter draw = philox(key, {i, 0, 0, 0});
    const std::uint64_t bits = (std::uint64_t{draw[0]} << 32U) | draw[1];
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isfinite(value)) values.push_back(value);
  }
  for (const double value : values) {
    const double back = read_back(value);
    ASSERT_EQ(std::memcmp(&back, &value, sizeof(value)), 0) << json_double(value);
  }
  EXPECT_EQ(json_double(-0.0), "-0.0");
  EXPECT_EQ(json_double(0.1), "0.1");
  EXPECT_THROW(json_double(Limits::infinity()), Error);
}

TEST(HashText, RoundTripsAndRefusesOtherForms) {
  EXPECT_EQ(hash_text(0), "0000000000000000");
  EXPECT_EQ(hash_text(0xabcULL), "0000000000000abc");
  EXPECT_EQ(hash_field({{"h", "ffffffffffffffff"}}, "h", "p"), UINT64_MAX);
  for (const char* text : {"", "abc", "FFFFFFFFFFFFFFFF", "fffffffffffffffg", "-fffffffffffffff",
                           "00000000000000000"}) {
    EXPECT_THROW(hash_field({{"h", text}}, "h", "p"), InputError) << text;
  }
}

TEST(JsonString, EscapesAndRefusesWhatIsNotUtf8) {
  EXPECT_EQ(json_string("a\"\\\n\x01"), R"("a\"\\\n\u0001")");
  EXPECT_THROW(json_string("\xff"), Error);
}

}  // namespace
}  // namespace ulmus
