#include "ulmus/data/text_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/data/test_files.h"
#include "tests/data/test_text.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<std::string> read_all(const std::vector<fs::path>& paths, int num_threads = 2,
                                  std::int64_t batch_bytes = 1 << 20) {
  ThreadPool pool(num_threads);
  TextReader reader(find_inputs(paths), pool, batch_bytes);
  std::vector<std::string> texts;
  for (auto batch = reader.next(); !batch.empty(); batch = reader.next()) {
    for (const std::string_view text : batch)
      texts.emplace_back(text);
  }
  EXPECT_EQ(reader.bytes_read(), reader.bytes_total());
  return texts;
}

TEST(TextReader, TakesATextFileAsOneDocumentByteForByte) {
  TestFolder folder;
  const std::string bytes("a\r\n\0\xFF z\n\n", 9);
  EXPECT_THAT(read_all({folder.write("x.txt", bytes)}), ElementsAre(bytes));
  EXPECT_THAT(read_all({folder.write("README", "r"), folder.write("empty.txt", "")}),
              ElementsAre("r", ""));
}

TEST(TextReader, TakesAJsonlLineAsADocument) {
  TestFolder folder;
  const auto path = folder.write("x.jsonl",
                                 "{\"text\": \"one\\n\\u00e9\\ud83d\\ude00\", \"id\": 3}\n"
                                 "{\"meta\": {\"text\": 5}, \"text\": \"\"}\r\n"
                                 "{\"text\":\"last, without newline\"}");
  EXPECT_THAT(read_all({path}),
              ElementsAre("one\n\xC3\xA9\xF0\x9F\x98\x80", "", "last, without newline"));
}

TEST(TextReader, WalksFoldersInOrderAndCountsTheRest) {
  TestFolder folder;
  folder.write("b.txt", "b");
  folder.write("a/z.txt", "az");
  folder.write("a/c.jsonl", "{\"text\": \"ac\"}\n");
  folder.write("c.md", "ignored");
  const std::vector<fs::path> paths{folder.path()};
  EXPECT_THAT(read_all(paths), ElementsAre("ac", "az", "b"));
  EXPECT_EQ(find_inputs(paths).num_ignored, 1);
}

TEST(TextReader, GivesTheSameWithAnyBatchesAndThreads) {
  TestFolder folder;
  TestRandom random("jsonl");
  std::string lines;
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    expected.push_back(random_text(random, 60));
    lines += nlohmann::json{{"text", expected.back()}}.dump() + "\n";
  }
  const auto first = folder.write("1.jsonl", lines);
  const auto second = folder.write("2.txt", "between");
  const auto third = folder.write("3.jsonl", lines);
  std::vector<std::string> twice = expected;
  twice.emplace_back("between");
  twice.insert(twice.end(), expected.begin(), expected.end());
  for (const std::int64_t batch_bytes : {1, 100, 5000, 1 << 20}) {
    for (const int num_threads : {1, 3}) {
      ASSERT_EQ(read_all({first, second, third}, num_threads, batch_bytes), twice)
          << batch_bytes << " bytes, " << num_threads << " threads";
    }
  }
}

TEST(TextReader, ReadsMoreFilesThanMayBeOpenAtOnce) {
  TestFolder folder;
  constexpr int kFiles = 5000;
  for (int i = 0; i < kFiles; ++i)
    folder.write(std::to_string(10000 + i) + ".txt", std::to_string(i));
  const std::vector<std::string> texts = read_all({folder.path()});
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(kFiles));
  for (int i = 0; i < kFiles; ++i)
    ASSERT_EQ(texts[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST(TextReader, NamesFileAndLineOfWhatIsBroken) {
  TestFolder folder;
  const auto message = [&](std::string_view line) {
    const std::string good = "{\"text\": \"good\"}\n";
    const auto path = folder.write(
        "bad.jsonl", good + good + std::string(line) + "\n" + good + "{\"text\": 1}\n");
    const auto before = folder.write("good.jsonl", good + good + good + good);
    return input_error([&] { read_all({before, path}, 4); });
  };
  for (const std::string_view line :
       {"{\"text\": \"unfinished", "", "   ", "garbage", "{\"text\": \"a\"} {\"text\": \"b\"}",
        "{\"text\": \"\xFF\"}", "{\"text\": \"\\ud800\"}", "{\"text\": \"a\tb\"}"}) {
    EXPECT_THAT(message(line),
                testing::AllOf(HasSubstr("bad.jsonl: line 3"), HasSubstr("not valid JSON")))
        << line;
  }
  EXPECT_THAT(message("[\"text\"]"), HasSubstr("line 3 is array, not an object"));
  EXPECT_THAT(message("{\"Text\": \"a\"}"), HasSubstr("line 3 has no \"text\""));
  EXPECT_THAT(message("{\"text\": null}"), HasSubstr("line 3 \"text\" is null, not a string"));
}

TEST(TextReader, SurvivesDamagedLines) {
  TestFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += "{\"text\": \"some \\\"text\\\" \\u00e9\", \"n\": [1, 2]}\n";
  TestRandom random("jsonl damage");
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    const auto path = folder.write("d.jsonl", damaged(lines, random));
    try {
      read_all({path}, 1);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("d.jsonl: line "));
      ++refused;
    }
  }
  EXPECT_GT(refused, 40);
}

TEST(FindInputs, RefusesWhatIsNoText) {
  TestFolder folder;
  folder.write("only/data.csv", "1,2");
  const auto refusal = [](const fs::path& path) {
    const std::vector<fs::path> paths{path};
    return input_error([&] { find_inputs(paths); });
  };
  EXPECT_THAT(refusal(folder.path() / "absent.txt"), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(folder.path() / "only"), HasSubstr("no .txt and no .jsonl"));
  EXPECT_THAT(refusal(folder.write("x.gz", "x")), HasSubstr(".gz is not a text format"));
  EXPECT_THROW(find_inputs({}), InputError);
}

}  // namespace
}  // namespace ulmus::data
