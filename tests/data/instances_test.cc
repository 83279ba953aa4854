#include "ulmus/data/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/data/test_files.h"
#include "tests/data/test_text.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

using testing::ElementsAre;

struct Rows {
  explicit Rows(const Instances& instances, std::int64_t index)
      : tokens(size(instances), -7),
        targets(tokens),
        document_begin(tokens),
        valid(tokens.size(), 9) {
    instances.fill(index, {tokens, targets, document_begin, valid});
  }
  static std::size_t size(const Instances& instances) {
    return static_cast<std::size_t>(instances.sequence_length());
  }
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> document_begin;
  std::vector<std::uint8_t> valid;
};

constexpr int kVocab = 60000;

TEST(ChunkInstances, AreShiftedByOneAndDropTheRestOfEachFile) {
  TestFolder folder;
  const TokenFiles files{write_tokens(folder, "a", {counting(10, 5), counting(15, 5)}, kVocab),
                         write_tokens(folder, "b", {counting(100, 2)}, kVocab),
                         write_tokens(folder, "c", {counting(200, 5)}, kVocab)};
  const Instances instances(files, 4, Packing::kChunk, Leftover::kDrop);
  ASSERT_EQ(instances.size(), 3);
  EXPECT_EQ(instances.num_targets(), 12);
  EXPECT_EQ(instances.num_dropped(), 2);
  const Rows second(instances, 1);
  EXPECT_THAT(second.tokens, ElementsAre(14, 15, 16, 17));
  EXPECT_THAT(second.targets, ElementsAre(15, 16, 17, 18));
  EXPECT_THAT(second.document_begin, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(second.valid, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Rows(instances, 2).tokens, ElementsAre(200, 201, 202, 203));
  EXPECT_THROW(Rows(instances, 3), Error);
  EXPECT_THROW(Rows(instances, -1), Error);
}

TEST(ChunkInstances, PadTheRestForEvaluation) {
  TestFolder folder;
  const TokenFiles files{write_tokens(folder, "a", {counting(10, 7)}, kVocab)};
  const Instances instances(files, 4, Packing::kChunk, Leftover::kPad);
  ASSERT_EQ(instances.size(), 2);
  EXPECT_EQ(instances.num_dropped(), 0);
  const Rows last(instances, 1);
  EXPECT_THAT(last.tokens, ElementsAre(14, 15, 0, 0));
  EXPECT_THAT(last.targets, ElementsAre(15, 16, -1, -1));
  EXPECT_THAT(last.document_begin, ElementsAre(0, 0, 2, 3));
  EXPECT_THAT(last.valid, ElementsAre(1, 1, 0, 0));
}

TEST(ChunkInstances, PredictEveryTokenButTheFirstOnce) {
  TestFolder folder;
  int stem = 0;
  for (const std::int32_t n : {1, 2, 5, 8, 9, 10, 17, 100}) {
    const auto file = write_tokens(folder, std::to_string(stem++), {counting(0, n)}, kVocab);
    for (const std::int64_t length : {1, 3, 4, 8}) {
      if (n == 1) {
        EXPECT_THROW(Instances({file}, length, Packing::kChunk, Leftover::kPad), InputError);
        continue;
      }
      const Instances instances({file}, length, Packing::kChunk, Leftover::kPad);
      std::vector<std::int32_t> targets;
      for (std::int64_t i = 0; i < instances.size(); ++i) {
        for (const std::int32_t target : Rows(instances, i).targets) {
          if (target >= 0) targets.push_back(target);
        }
      }
      EXPECT_EQ(targets, counting(1, n - 1)) << n << " tokens, length " << length;
      EXPECT_EQ(instances.num_targets(), n - 1);
    }
  }
}

TEST(DocumentInstances, PackByHand) {
  TestFolder folder;
  // As inputs: 4, 2, 1, 6 (cut into 4 + 2), and a document of one token that predicts nothing.
  const TokenFiles files{write_tokens(
      folder, "a", {counting(10, 5), counting(20, 3), counting(30, 2), counting(40, 7), {50}},
      kVocab)};
  const Instances instances(files, 4, Packing::kDocuments, Leftover::kDrop);
  ASSERT_EQ(instances.size(), 4);
  EXPECT_EQ(instances.num_targets(), 4 + 2 + 1 + 6);
  EXPECT_THAT(Rows(instances, 0).tokens, ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(Rows(instances, 1).tokens, ElementsAre(40, 41, 42, 43));
  const Rows packed(instances, 2);
  EXPECT_THAT(packed.tokens, ElementsAre(20, 21, 44, 45));
  EXPECT_THAT(packed.targets, ElementsAre(21, 22, 45, 46));
  EXPECT_THAT(packed.document_begin, ElementsAre(0, 0, 2, 2));
  const Rows padded(instances, 3);
  EXPECT_THAT(padded.tokens, ElementsAre(30, 0, 0, 0));
  EXPECT_THAT(padded.targets, ElementsAre(31, -1, -1, -1));
  EXPECT_THAT(padded.document_begin, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(padded.valid, ElementsAre(1, 0, 0, 0));
}

TEST(DocumentInstances, PredictEveryTokenButTheFirstOfEachDocumentOnce) {
  TestFolder folder;
  TestRandom random("packing");
  constexpr std::int64_t kLength = 16;
  // Ids number all tokens, so a target tells which token it is.
  Documents documents;
  std::map<std::int32_t, std::int32_t> expected;  // target -> the token before it
  std::int32_t next = 0;
  for (int d = 0; d < 800; ++d) {
    const auto n = static_cast<std::int32_t>(1 + random.below(d % 10 == 0 ? 60 : 20));
    documents.push_back(counting(next, n));
    for (std::int32_t i = 1; i < n; ++i)
      expected[next + i] = next + i - 1;
    next += n;
  }
  const auto file = write_tokens(folder, "a", documents, kVocab);
  const Instances instances({file}, kLength, Packing::kDocuments, Leftover::kDrop);
  for (std::int64_t i = 0; i < instances.size(); ++i) {
    const Rows rows(instances, i);
    for (std::size_t at = 0; at < kLength; ++at) {
      if (rows.valid[at] == 0) {
        EXPECT_EQ(rows.targets[at], -1);
        continue;
      }
      ASSERT_EQ(expected.count(rows.targets[at]), 1U);
      EXPECT_EQ(expected[rows.targets[at]], rows.tokens[at]);
      expected.erase(rows.targets[at]);
      const auto begin = static_cast<std::size_t>(rows.document_begin[at]);
      ASSERT_LE(begin, at);
      // From document_begin on the tokens are one stretch of one document.
      EXPECT_EQ(rows.tokens[at] - rows.tokens[begin], static_cast<std::int32_t>(at - begin));
    }
  }
  EXPECT_TRUE(expected.empty());
  const std::int64_t least = (instances.num_targets() + kLength - 1) / kLength;
  EXPECT_LE(instances.size(), least + least / 50) << "packed badly";
}

TEST(DocumentInstances, AreTheSameEveryTime) {
  TestFolder folder;
  TestRandom random("packing twice");
  Documents documents;
  for (int d = 0; d < 200; ++d) {
    documents.push_back(counting(0, static_cast<std::int32_t>(2 + random.below(30))));
  }
  const auto file = write_tokens(folder, "a", documents, kVocab);
  const Instances once({file}, 32, Packing::kDocuments, Leftover::kDrop);
  const Instances again({file}, 32, Packing::kDocuments, Leftover::kDrop);
  ASSERT_EQ(once.size(), again.size());
  for (std::int64_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(Rows(once, i).tokens, Rows(again, i).tokens);
    EXPECT_EQ(Rows(once, i).document_begin, Rows(again, i).document_begin);
  }
}

TEST(Instances, SayWhenThereIsTooLittleText) {
  TestFolder folder;
  const auto file = write_tokens(folder, "a", {counting(0, 8)}, kVocab);
  EXPECT_THAT(input_error([&] { Instances({file}, 8, Packing::kChunk, Leftover::kDrop); }),
              testing::HasSubstr("no sequence of 8"));
  EXPECT_THROW(Instances({}, 8, Packing::kDocuments, Leftover::kDrop), InputError);
  EXPECT_EQ(parse_packing("chunk", "data.packing"), Packing::kChunk);
  EXPECT_THAT(input_error([] { parse_packing("chunks", "data.packing"); }),
              testing::HasSubstr("data.packing is \"chunks\""));
}

}  // namespace
}  // namespace ulmus::data
