#include "ulmus/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/data/test_text.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

class TokenizerTest : public testing::Test {
 protected:
  Tokenizer plain_ = Tokenizer::load(test_data("tokenizer-hf.json"));
  Tokenizer added_ = Tokenizer::load(test_data("tokenizer-added.json"));
};

TEST_F(TokenizerTest, GivesTheIdsOfHuggingFaceTokenizers) {
  const Json golden = Json::parse(read_file(test_data("tokenizer-cases.json")));
  Encoder plain(plain_);
  Encoder recognised(plain_, SpecialText::kRecognise);
  ASSERT_GT(golden["cases"].size(), 50U);
  for (const Json& item : golden["cases"]) {
    const auto text = item["text"].get<std::string>();
    Ids ids;
    plain.encode(text, ids);
    EXPECT_EQ(ids, item["plain"].get<Ids>()) << text;
    EXPECT_EQ(plain_.decode(ids), text);
    ids.clear();
    recognised.encode(text, ids);
    EXPECT_EQ(ids, item["recognised"].get<Ids>()) << text;
    EXPECT_EQ(plain_.decode(ids), text);
    EXPECT_EQ(added_.encode(text), item["added_plain"].get<Ids>()) << text;
    EXPECT_EQ(added_.encode(text, SpecialText::kRecognise), item["added_recognised"].get<Ids>())
        << text;
  }
}

TEST_F(TokenizerTest, GivesAnyBytesBack) {
  TestRandom random("tokenizer bytes");
  Encoder encoder(plain_);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = i % 2 == 0 ? random_bytes(random, 200) : random_text(random, 100);
    Ids ids;
    encoder.encode(text, ids);
    ASSERT_EQ(plain_.decode(ids), text);
    ASSERT_EQ(ids, plain_.encode(text)) << "the cache changed something";
  }
}

TEST_F(TokenizerTest, SpecialTextIsPlainUnlessAskedFor) {
  EXPECT_EQ(plain_.end_of_text_id(), 0);
  EXPECT_THAT(plain_.encode("a<|endoftext|>"), testing::Not(testing::Contains(0)));
  EXPECT_THAT(plain_.encode("a<|endoftext|>", SpecialText::kRecognise), testing::Contains(0));
}

TEST_F(TokenizerTest, KeepsNoMoreWordsThanTheCacheHolds) {
  Encoder encoder(plain_);
  TestRandom random("many words");
  Ids ids;
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int word = 0; word < 3000; ++word) {
      text += ' ';
      for (int letter = 0; letter < 8; ++letter) {
        text.push_back(static_cast<char>('a' + random.below(26)));
      }
    }
    ids.clear();
    encoder.encode(text, ids);
    if (i % 50 == 49) {  // the last time after the cache was emptied
      ASSERT_EQ(ids, plain_.encode(text));
    }
  }
}

TEST_F(TokenizerTest, SavesWhatItLoads) {
  for (const Tokenizer* tokenizer : {&plain_, &added_}) {
    const auto path = std::filesystem::path(testing::TempDir()) / "ulmus-tokenizer.json";
    tokenizer->save(path);
    const Tokenizer again = Tokenizer::load(path);
    EXPECT_EQ(again.to_json(), tokenizer->to_json());
    EXPECT_EQ(again.fingerprint(), tokenizer->fingerprint());
    EXPECT_EQ(again.end_of_text_id(), tokenizer->end_of_text_id());
    const std::string text = austen_excerpt();
    EXPECT_EQ(again.encode(text), tokenizer->encode(text));
    std::filesystem::remove(path);
  }
  EXPECT_NE(plain_.fingerprint(), added_.fingerprint());
}

TEST_F(TokenizerTest, DeepNestingIsRefusedAndEndsNoStack) {
  const std::string deep = R"({"version": "1.0", "model": {"vocab": {"a": )" +
                           std::string(1000000, '[') + std::string(1000000, ']') + "}}}";
  try {
    Tokenizer::parse(deep, "deep.json");
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("deep.json: nested deeper than 16"));
  }
}

TEST_F(TokenizerTest, MayBeUsedFromSeveralThreads) {
  const std::string text = austen_excerpt().substr(0, 20000);
  const Ids expected = plain_.encode(text);
  std::vector<Ids> results(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& result : results) {
      threads.emplace_back([&] { result = plain_.encode(text); });
    }
  }
  for (const Ids& result : results)
    EXPECT_EQ(result, expected);
}

TEST_F(TokenizerTest, RefusesIdsOutsideTheVocabulary) {
  EXPECT_THROW(static_cast<void>(plain_.decode(Ids{1024})), InputError);
  EXPECT_THROW(static_cast<void>(plain_.token_bytes(-1)), InputError);
}

/// The golden file with one change must be refused with a message that names the thing.
class TokenizerRefusal : public testing::Test {
 protected:
  void expect_refusal(const Json& json, const std::string& words) {
    try {
      Tokenizer::parse(json.dump(), "tokenizer.json");
      ADD_FAILURE() << "accepted; expected a message with " << words;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("tokenizer.json"));
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
  }
  Json json_ = Json::parse(read_file(test_data("tokenizer-hf.json")));
};

TEST_F(TokenizerRefusal, OfWhatWouldChangeIds) {
  const auto with = [this](const std::string& pointer, const Json& value) {
    Json changed = json_;
    changed[Json::json_pointer(pointer)] = value;
    return changed;
  };
  expect_refusal(with("/normalizer", {{"type", "NFC"}}), "\"normalizer\"");
  expect_refusal(with("/truncation", {{"max_length", 5}}), "\"truncation\"");
  expect_refusal(with("/padding", {{"pad_id", 5}}), "\"padding\"");
  expect_refusal(with("/model/type", "Unigram"), "\"Unigram\"");
  expect_refusal(with("/model/byte_fallback", true), "\"byte_fallback\"");
  expect_refusal(with("/model/ignore_merges", true), "\"ignore_merges\"");
  expect_refusal(with("/model/dropout", 0.1), "\"dropout\"");
  expect_refusal(with("/model/end_of_word_suffix", "</w>"), "\"end_of_word_suffix\"");
  expect_refusal(with("/model/novelty", 1), "\"novelty\"");
  expect_refusal(with("/pre_tokenizer/add_prefix_space", true), "\"add_prefix_space\"");
  expect_refusal(with("/pre_tokenizer/use_regex", false), "\"use_regex\"");
  expect_refusal(with("/pre_tokenizer/type", "Whitespace"), "\"Whitespace\"");
  expect_refusal(with("/pre_tokenizer", nullptr), "\"pre_tokenizer\"");
  expect_refusal(with("/decoder", nullptr), "\"decoder\"");
  expect_refusal(with("/post_processor", {{"type", "TemplateProcessing"}}), "\"post_processor\"");
  expect_refusal(with("/added_tokens/0/lstrip", true), "\"lstrip\"");
  expect_refusal(with("/pre_tokeniser", 1), "did you mean \"pre_tokenizer\"");
}

TEST_F(TokenizerRefusal, OfVocabulariesThatDoNotHoldTogether) {
  Json missing_byte = json_;
  missing_byte["model"]["vocab"]["unreachable"] =
      json_["model"]["vocab"]["\u0100"];  // the token of byte 0
  missing_byte["model"]["vocab"].erase("\u0100");
  expect_refusal(missing_byte, "byte 0");
  Json unknown_side = json_;
  unknown_side["model"]["merges"][3] = {"zzzz", "q"};
  expect_refusal(unknown_side, "entry 3");
  Json broken_merge = json_;
  broken_merge["model"]["merges"][7] = "one two three";
  expect_refusal(broken_merge, "entry 7");
  Json gap = json_;
  gap["model"]["vocab"]["new"] = 5000;
  expect_refusal(gap, "5000");
  Json huge = json_;
  huge["model"]["vocab"]["new"] = 4000000000000000000LL;
  expect_refusal(huge, "not an integer in");
  Json twice = json_;
  twice["model"]["vocab"]["new"] = 300;
  expect_refusal(twice, "id 300 belongs to two tokens");
  Json foreign = json_;
  foreign["model"]["vocab"]["a b"] = 1024;
  expect_refusal(foreign, "byte alphabet");
  Json empty = json_;
  empty["added_tokens"][0]["content"] = "";
  expect_refusal(empty, "0");
}

TEST_F(TokenizerRefusal, OfGarbageWithoutACrash) {
  const std::string text = read_file(test_data("tokenizer-hf.json"));
  TestRandom random("tokenizer damage");
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    try {
      Tokenizer::parse(damaged(text, random), "damaged");
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 75);
  for (const std::string_view bad : {"", "null", "[]", "{}", "7", "{\"model\":", "\xFF"}) {
    EXPECT_THROW(Tokenizer::parse(bad, "bad"), InputError) << bad;
  }
  EXPECT_THROW(Tokenizer::load("/nowhere/tokenizer.json"), InputError);
}

}  // namespace
}  // namespace ulmus::data
