#include "ulmus/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"

namespace ulmus::checkpoint {
namespace {

using test::message_of;
using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest = test::small_facts(100);
  manifest.tensors = {
      {"a.weight", "layer-00.safetensors", DType::kF32, {2, 3}, 3, 0, 24, 0x123456789abcdef0ULL},
      {"b", "head.safetensors", DType::kF64, {4}, 4, 0, 32, UINT64_MAX},
      {"c", "layer-00.safetensors", DType::kF32, {0}, 0, 24, 0, 0},
  };
  return manifest;
}

std::string refusal(const std::string& text) {
  return message_of<InputError>([&] { parse_manifest(text, "m.json"); });
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, ReadsBackBitForBit) {
  const Manifest manifest = example();
  const std::string text = to_json(manifest);
  const Manifest back = parse_manifest(text, "m.json");
  EXPECT_EQ(back, manifest);
  EXPECT_EQ(to_json(back), text);
  // == takes -0 for 0.
  EXPECT_TRUE(std::signbit(back.doubles.at("optimizer.windows")[1]));
  EXPECT_EQ(back.doubles.at("optimizer.windows")[2], std::numeric_limits<double>::denorm_min());
}

TEST(Manifest, HasOneText) {
  Manifest manifest;
  manifest.step = 3;
  manifest.configuration = {{"model.d_model", "64"}};
  manifest.doubles = {{"w", {0.5, 2.0}}};
  manifest.tensors = {{"a", "x.safetensors", DType::kF32, {2}, 2, 0, 8, 255}};
  const std::string text = to_json(manifest);
  const std::size_t hash_at = text.find("\"hash\": \"", text.find("format_version")) + 9;
  EXPECT_EQ(replaced(text, text.substr(hash_at, 16), "(own hash)"),
            "{\n"
            "\"configuration\": {\n\"model.d_model\": \"64\"\n},\n"
            "\"data_position\": 0,\n"
            "\"doubles\": {\n\"w\": [0.5, 2.0]\n},\n"
            "\"format_version\": 2,\n"
            "\"hash\": \"(own hash)\",\n"
            "\"integers\": {},\n"
            "\"step\": 3,\n"
            "\"tensors\": [\n"
            "{\"bytes\": 8, \"dtype\": \"F32\", \"file\": \"x.safetensors\", "
            "\"hash\": \"00000000000000ff\", \"name\": \"a\", \"offset\": 0, \"shape\": [2], "
            "\"slice_elements\": 2}\n],\n"
            "\"tokens\": 0\n}\n");
}

TEST(Manifest, NamesUnknownAndMissingKeys) {
  const std::string text = to_json(example());
  EXPECT_THAT(refusal(replaced(text, "\"tokens\"", "\"tokenz\"")), HasSubstr("\"tokens\" is miss"));
  EXPECT_THAT(refusal(replaced(text, "\"tokens\"", "\"more\": 1, \"tokens\"")),
              HasSubstr("m.json: unknown key \"more\""));
  EXPECT_THAT(refusal(replaced(text, "\"slice_elements\"", "\"slices\"")),
              HasSubstr("\"slice_elements\" is missing"));
  const std::string other = replaced(text, "\"format_version\": 2", "\"format_version\": 3");
  EXPECT_THAT(message_of<FormatError>([&] { parse_manifest(other, "m.json"); }),
              HasSubstr("m.json: format_version 3, this program reads 2"));
}

TEST(Manifest, RefusesTensorsThatCannotBe) {
  const auto refused = [](auto&& change) {
    Manifest manifest = example();
    change(manifest.tensors);
    return refusal(to_json(manifest));
  };
  using Tensors = std::vector<ManifestTensor>;
  EXPECT_THAT(refused([](Tensors& t) { t[1].name = "a.weight"; }), HasSubstr("listed twice"));
  EXPECT_THAT(refused([](Tensors& t) { t[1].name = "a"; }), HasSubstr("out of order"));
  EXPECT_THAT(refused([](Tensors& t) { t[0].name = ""; }), HasSubstr("needs a name"));
  EXPECT_THAT(refused([](Tensors& t) { t[0].bytes = 25; }), HasSubstr("25 bytes for [2, 3]"));
  EXPECT_THAT(refused([](Tensors& t) { t[2].offset = 20; }), HasSubstr("begins at byte 20"));
  EXPECT_THAT(refused([](Tensors& t) { t[0].slice_elements = 4; }), HasSubstr("do not divide"));
  EXPECT_THAT(refused([](Tensors& t) { t[0].slice_elements = 0; }), HasSubstr("do not divide"));
  for (const char* file : {"../x.safetensors", "/x.safetensors", ".safetensors", "x.bin", "",
                           ".x.safetensors", "a b.safetensors"}) {
    EXPECT_THAT(refused([&](Tensors& t) { t[1].file = file; }), HasSubstr("plain name")) << file;
  }
}

TEST(Manifest, RefusesOtherTypes) {
  const std::string text = to_json(example());
  EXPECT_THAT(refusal(replaced(text, "[2, 3]", "[1, 1, 1, 2, 3]")), HasSubstr("5 dimensions"));
  EXPECT_THAT(refusal(replaced(text, "[2, 3]", "[4611686018427387904, 8]")), HasSubstr("too many"));
  EXPECT_THAT(refusal(replaced(text, "\"F32\"", "\"I64\"")), HasSubstr("allowed are F32 and F64"));
  EXPECT_THAT(refusal(replaced(text, "[1.5, ", "[\"1.5\", ")), HasSubstr("optimizer.windows"));
  EXPECT_THAT(refusal(replaced(text, "[7, ", "[7.0, ")), HasSubstr("previous_counts"));
  EXPECT_THAT(refusal(replaced(text, "[7, ", "[9223372036854775808, ")), HasSubstr("63 bits"));
  EXPECT_THAT(refusal(replaced(text, "\"olmoe\"", "7")),
              HasSubstr("\"model.family\" must be a str"));
}

TEST(Manifest, NeverHoldsNanOrInf) {
  Manifest manifest = example();
  manifest.doubles["gate"] = {1.0, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THAT(message_of<Error>([&] { to_json(manifest); }), HasSubstr("gate holds nan"));
  manifest.doubles["gate"] = {-std::numeric_limits<double>::infinity()};
  EXPECT_THAT(message_of<Error>([&] { to_json(manifest); }), HasSubstr("gate holds -inf"));
}

TEST(Manifest, ForeignTextsAreSafeToShow) {
  EXPECT_EQ(shown_text("\"olmoe\" ~"), "\"olmoe\" ~");
  EXPECT_EQ(shown_text("a\x1b[2Jb"), "\"a\\x1b[2Jb\"");
  EXPECT_EQ(shown_text("a\nb = 1"), "\"a\\x0ab = 1\"");
}

TEST(Manifest, KeptHashesAreOneNumber) {
  Manifest manifest;
  manifest.integers = {{"one", {-1}}, {"two", {1, 2}}};
  EXPECT_EQ(kept_hash(manifest, "one"), UINT64_MAX);
  EXPECT_FALSE(kept_hash(manifest, "two"));
  EXPECT_FALSE(kept_hash(manifest, "none"));
}

TEST(Manifest, AnyFlippedBitIsFound) {
  const std::string text = to_json(example());
  for (std::size_t bit = 0; bit < text.size() * 8; bit += 11) {
    std::string damaged = text;
    damaged[bit / 8] =
        static_cast<char>(static_cast<unsigned char>(text[bit / 8]) ^ (1U << bit % 8));
    ASSERT_NE(refusal(damaged), "") << "bit " << bit;
  }
  for (std::size_t length = 0; length < text.size(); length += 3) {
    ASSERT_NE(refusal(text.substr(0, length)), "") << length;
  }
}

}  // namespace
}  // namespace ulmus::checkpoint
