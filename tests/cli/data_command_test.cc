#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "ulmus/base/file.h"

namespace ulmus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DataCommand : public testing::Test {
 protected:
  DataCommand() {
    folder_.write("text.txt", read_file(ULMUS_TEST_DATA "/austen-excerpt.txt"));
    EXPECT_EQ(run_program({"data", "tokenizer-train", folder_.path("text.txt"), "--vocab", "300",
                           "--output", folder_.path("tokenizer.json"), "--threads", "1"})
                  .status,
              0);
  }

  Finished tokenize(const std::string& input, const std::string& name) {
    return run_program({"data", "tokenize", input, "--tokenizer", folder_.path("tokenizer.json"),
                        "--output", folder_.path("tokens"), "--name", name, "--threads", "1"});
  }

  TestFolder folder_;
};

TEST_F(DataCommand, ShowsFactsAndBaselines) {
  ASSERT_EQ(tokenize(folder_.path("text.txt"), "train").status, 0);
  ASSERT_EQ(tokenize(folder_.path("text.txt"), "held").status, 0);
  const std::string tokens = folder_.path("tokens/train.tokens");
  const Finished run = run_program(
      {"data", "show", tokens, "--held-out", folder_.path("tokens/held.tokens"), "--json", "-"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto facts = nlohmann::json::parse(run.out);
  EXPECT_EQ(facts.at("vocab_size"), 300);
  EXPECT_EQ(facts.at("text_bytes"), std::filesystem::file_size(folder_.path("text.txt")));
  const auto& held_out = facts.at("held_out");
  EXPECT_LT(held_out.at("bigram").at("bits_per_byte").get<double>(),
            held_out.at("unigram").at("bits_per_byte").get<double>());
  EXPECT_THAT(run.err, HasSubstr("interpolated bigram"));
}

TEST_F(DataCommand, VerifyFindsAFlippedBit) {
  ASSERT_EQ(tokenize(folder_.path("text.txt"), "train").status, 0);
  const std::string tokens = folder_.path("tokens/train.tokens");
  EXPECT_EQ(run_program({"data", "verify", folder_.path("tokens"), "--tokenizer",
                         folder_.path("tokenizer.json")})
                .status,
            0);
  std::string bytes = read_file(tokens);
  bytes[10] = static_cast<char>(bytes[10] ^ 1);
  std::ofstream(tokens, std::ios::binary) << bytes;
  const Finished run = run_program({"data", "verify", folder_.path("tokens")});
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("train.tokens"));
}

TEST_F(DataCommand, AnExistingFileIsReplacedOnlyWhenAsked) {
  const std::string text = folder_.write("mine.txt", "words and words");
  const std::vector<std::string> train = {"data", "tokenizer-train", text, "--vocab",
                                          "257",  "--output",        text};
  const Finished run = run_program(train);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, testing::HasSubstr("--overwrite"));
  EXPECT_EQ(read_file(text), "words and words");
  std::vector<std::string> asked = train;
  asked.emplace_back("--overwrite");
  EXPECT_EQ(run_program(asked).status, 0);
  // What is no file, a device for one, is not replaced by one.
  const std::string pipe = folder_.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  asked[6] = pipe;
  EXPECT_EQ(run_program(asked).status, 2);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST_F(DataCommand, BadInputsAreStatusTwo) {
  EXPECT_EQ(tokenize(folder_.path("none.txt"), "train").status, 2);
  const Finished broken =
      tokenize(folder_.write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 3}\n"), "train");
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("bad.jsonl"), HasSubstr("line 2")));
  EXPECT_EQ(
      run_program({"data", "show", folder_.write("odd.tokens", "abc"), "--type", "uint16"}).status,
      2);
  EXPECT_EQ(
      run_program({"data", "show", folder_.write("empty.tokens", ""), "--type", "uint16"}).status,
      2);
  EXPECT_EQ(run_program({"data", "tokenizer-train", folder_.path("text.txt"), "--vocab", "5",
                         "--output", folder_.path("t.json")})
                .status,
            2);
}

}  // namespace
}  // namespace ulmus::test
