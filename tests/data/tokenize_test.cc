#include "ulmus/data/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/test_files.h"
#include "tests/data/test_text.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

using testing::HasSubstr;

class TokenizeTest : public testing::Test {
 protected:
  TokenizeReport run(const std::vector<std::filesystem::path>& paths, const std::string& stem,
                     int num_threads) {
    ThreadPool pool(num_threads);
    return tokenize(find_inputs(paths), tokenizer_,
                    {.folder = folder_.path() / "out", .stem = stem}, pool);
  }
  TokenFile open(const std::string& stem) {
    return TokenFile::open(folder_.path() / "out" / (stem + ".tokens"));
  }
  TestFolder folder_;
  Tokenizer tokenizer_ = Tokenizer::load(test_data("tokenizer-hf.json"));
};

TEST_F(TokenizeTest, WritesEachDocumentAndAnEndOfText) {
  const auto jsonl = folder_.write(
      "x.jsonl", "{\"text\": \"Hello\"}\n{\"text\": \"\"}\n{\"text\": \"<|endoftext|>\"}\n");
  const auto text = folder_.write("y.txt", austen_excerpt());
  const TokenizeReport report = run({jsonl, text}, "train", 2);
  EXPECT_EQ(report.num_files, 2);
  EXPECT_EQ(report.num_empty_documents, 1);
  const TokenFile file = open("train");
  ASSERT_EQ(file.num_documents(), 3);
  EXPECT_EQ(file.text_bytes(), static_cast<std::int64_t>(5 + 13 + austen_excerpt().size()));
  const std::string_view expected[] = {"Hello", "<|endoftext|>", ""};
  for (std::int64_t d = 0; d < 3; ++d) {
    std::vector<std::int32_t> ids(
        static_cast<std::size_t>(file.document_end(d) - file.document_begin(d)));
    file.read(file.document_begin(d), ids);
    EXPECT_EQ(ids.back(), tokenizer_.end_of_text_id());
    ids.pop_back();
    EXPECT_THAT(ids, testing::Not(testing::Contains(tokenizer_.end_of_text_id())));
    const std::string whole = d == 2 ? austen_excerpt() : std::string(expected[d]);
    EXPECT_EQ(ids, tokenizer_.encode(whole)) << "pieces must not show";
  }
}

TEST_F(TokenizeTest, DoesNotDependOnThreads) {
  std::string text;  // above several pieces
  for (int i = 0; i < 8; ++i)
    text += austen_excerpt();
  const auto path = folder_.write("y.txt", text);
  run({path}, "one", 1);
  run({path}, "three", 3);
  EXPECT_EQ(read_file(folder_.path() / "out/one.tokens"),
            read_file(folder_.path() / "out/three.tokens"));
  EXPECT_EQ(read_file(folder_.path() / "out/one.index"),
            read_file(folder_.path() / "out/three.index"));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(open("one").num_tokens()));
  open("one").read(0, ids);
  ids.pop_back();
  EXPECT_EQ(ids, tokenizer_.encode(text));
}

TEST_F(TokenizeTest, LeavesNothingBehindWhenTheTextIsBroken) {
  const auto bad = folder_.write("x.jsonl", "{\"text\": \"Hello\"}\n{\"text\"\n");
  EXPECT_THAT(input_error([&] { run({bad}, "train", 2); }), HasSubstr("x.jsonl: line 2"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "out/train.tokens"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "out/train.tokens.part"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "out/manifest.json"));
  EXPECT_THROW(run({folder_.write("e.txt", "")}, "train", 1), InputError);
}

TEST_F(TokenizeTest, CountsWordsOverFiles) {
  const auto a = folder_.write("a.txt", "one two");
  const auto b = folder_.write("b.jsonl", "{\"text\": \"one two two\"}\n");
  ThreadPool pool(2);
  const std::vector<std::filesystem::path> paths{a, b};
  const WordCounts counts = count_words(find_inputs(paths), pool);
  ASSERT_EQ(counts.num_words(), 2);
  EXPECT_EQ(counts.sorted()[0].bytes, " two");
  EXPECT_EQ(counts.sorted()[0].count, 3);
  EXPECT_EQ(counts.sorted()[1].count, 2);
}

TEST_F(TokenizeTest, VerifyFolderNamesWhatIsWrong) {
  run({folder_.write("a.txt", "Hello world")}, "a", 1);
  run({folder_.write("b.txt", "Hello again")}, "b", 1);
  ThreadPool pool(2);
  const auto out = folder_.path() / "out";
  EXPECT_TRUE(verify_folder(out, &tokenizer_, pool).good());
  std::string bytes = read_file(out / "b.tokens");
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  folder_.write("out/b.tokens", bytes);
  const FolderVerdict verdict = verify_folder(out, nullptr, pool);
  EXPECT_FALSE(verdict.good());
  ASSERT_EQ(verdict.files.size(), 2U);
  EXPECT_EQ(verdict.files[0].problem, "");
  EXPECT_THAT(verdict.files[1].problem, HasSubstr("b.tokens"));
  const Tokenizer other = Tokenizer::load(test_data("tokenizer-added.json"));
  EXPECT_THAT(verify_folder(out, &other, pool).files[0].problem, HasSubstr("tokenizer"));
  EXPECT_THROW(verify_folder(folder_.path(), nullptr, pool), InputError);
}

TEST_F(TokenizeTest, SummariseTellsTheFacts) {
  const auto file = write_tokens(folder_, "s", {{1, 2, 3}, {9}, {3, 3}}, 10);
  ThreadPool pool(1);
  const TokenFileSummary summary = summarise(*file, 10, pool);
  EXPECT_EQ(summary.num_tokens, 6);
  EXPECT_EQ(summary.num_documents, 3);
  EXPECT_EQ(summary.shortest_document, 1);
  EXPECT_EQ(summary.median_document, 2);
  EXPECT_EQ(summary.longest_document, 3);
  EXPECT_EQ(summary.largest_id, 9);
  EXPECT_EQ(summary.num_distinct_ids, 4);
  EXPECT_THROW(summarise(*file, 9, pool), InputError);
}

}  // namespace
}  // namespace ulmus::data
