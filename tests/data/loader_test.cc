#include "ulmus/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/test_files.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

constexpr int kVocab = 60000;
/// One rank takes everything, in one micro-batch.
constexpr Deal kWhole{.micro_sequences = std::int64_t{1} << 40};

class LoaderTest : public testing::Test {
 protected:
  Loader loader(std::uint64_t seed, Order order = Order::kShuffled,
                Leftover leftover = Leftover::kDrop) {
    return Loader({{"a", {a_}, 3.0}, {"b", {b_}, 1.0}}, {.sequence_length = 8,
                                                         .packing = Packing::kChunk,
                                                         .leftover = leftover,
                                                         .order = order,
                                                         .seed = seed});
  }
  TestFolder folder_;
  std::shared_ptr<const TokenFile> a_ = write_tokens(folder_, "a", {counting(0, 1000)}, kVocab);
  std::shared_ptr<const TokenFile> b_ = write_tokens(folder_, "b", {counting(2000, 404)}, kVocab);
};

TEST_F(LoaderTest, StretchesJoinToTheSameOrder) {
  const Loader whole = loader(5);
  HostBatch all;
  whole.load(0, 60, kWhole, all);
  EXPECT_EQ(all.loss_tokens, 480);
  EXPECT_EQ(all.valid_tokens, 480);
  const Loader again = loader(5);
  HostBatch part;
  std::vector<std::int32_t> joined;
  for (std::int64_t at = 0; at < 60; at += 20) {
    again.load(at, 20, kWhole, part);
    joined.insert(joined.end(), part.tokens.begin(), part.tokens.end());
  }
  EXPECT_EQ(joined, all.tokens);
  HostBatch other;
  loader(6).load(0, 60, kWhole, other);
  EXPECT_NE(other.tokens, all.tokens);
}

TEST_F(LoaderTest, MixesByWeight) {
  HostBatch batch;
  loader(5).load(0, 400, kWhole, batch);
  const auto from_a =
      std::count_if(batch.tokens.begin(), batch.tokens.end(), [](auto t) { return t < 1000; });
  EXPECT_NEAR(static_cast<double>(from_a), 0.75 * 400 * 8, 8 * 17);  // see Mixture
}

TEST_F(LoaderTest, ReadsEachInstanceOnceForEvaluation) {
  const Loader sequential = loader(0, Order::kSequential, Leftover::kPad);
  EXPECT_EQ(sequential.num_instances(), 125 + 51);
  HostBatch batch;
  std::vector<std::int32_t> targets;
  for (std::int64_t at = 0; at < sequential.num_instances(); at += 16) {
    sequential.load(at, std::min<std::int64_t>(16, sequential.num_instances() - at), kWhole, batch);
    for (const std::int32_t target : batch.targets) {
      if (target >= 0) targets.push_back(target);
    }
  }
  std::vector<std::int32_t> expected = counting(1, 999);
  const std::vector<std::int32_t> of_b = counting(2001, 403);
  expected.insert(expected.end(), of_b.begin(), of_b.end());
  EXPECT_EQ(targets, expected);
  EXPECT_LT(batch.loss_tokens, batch.num_sequences * 8);
  EXPECT_THROW(sequential.load(sequential.num_instances(), 1, kWhole, batch), Error);
}

TEST_F(LoaderTest, AllocatesOnlyWhenTheBatchGrows) {
  const Loader shuffled = loader(1);
  HostBatch batch;
  shuffled.load(0, 32, kWhole, batch);
  const std::int32_t* before = batch.tokens.data();
  shuffled.load(32, 20, kWhole, batch);
  EXPECT_EQ(batch.num_sequences, 20);
  EXPECT_EQ(batch.tokens.size(), 160U);
  shuffled.load(52, 32, kWhole, batch);
  EXPECT_EQ(batch.tokens.data(), before);
}

TEST_F(LoaderTest, NamesTheFileWithAnIdOutsideTheVocabulary) {
  ThreadPool pool(2);
  const Loader files = loader(1);
  const std::int64_t all = files.num_tokens();
  files.verify_ids(2404, 0, all, pool);
  EXPECT_THAT(input_error([&] { files.verify_ids(2403, 0, all, pool); }),
              testing::HasSubstr("b.tokens: token 403 of 404 is 2403"));
  // The last token of the last file, and everything but it.
  EXPECT_NE(input_error([&] { files.verify_ids(2403, all - 1, all, pool); }), "");
  files.verify_ids(2403, 0, all - 1, pool);
}

TEST(HostBatch, CountsAttendedPairsAsTheyAreDefined) {
  TestFolder folder;
  const auto file = write_tokens(
      folder, "a", {counting(0, 4), counting(10, 9), counting(20, 3), counting(30, 6)}, kVocab);
  const Loader loader({{"a", {file}, 1.0}},
                      {.sequence_length = 10, .packing = Packing::kDocuments, .seed = 3});
  HostBatch batch;
  loader.load(0, 5, kWhole, batch);
  for (const std::int64_t window : {0, 1, 2, 3, 100}) {
    std::int64_t expected = 0;
    for (std::int64_t s = 0; s < batch.num_sequences; ++s) {
      for (std::int64_t i = 0; i < 10; ++i) {
        const auto at = static_cast<std::size_t>(s * 10 + i);
        for (std::int64_t k = 0; k <= i; ++k) {
          const bool same_document = k >= batch.document_begin[at];
          const bool near = window == 0 || i - k < window;
          if (batch.valid[at] != 0 && same_document && near) ++expected;
        }
      }
    }
    EXPECT_EQ(batch.attended_pairs(0, batch.num_sequences, window), expected)
        << "window " << window;
    if (window == 1) {
      EXPECT_EQ(expected, batch.valid_tokens);
    }
  }
}

TEST_F(LoaderTest, PrefetcherGivesWhatTheLoaderGives) {
  const Loader shuffled = loader(5);
  Prefetcher prefetcher(shuffled, kWhole, 6);
  HostBatch expected;
  std::int64_t position = 0;
  prefetcher.request(0, 3);
  const HostBatch* previous = nullptr;
  std::vector<std::int32_t> previous_tokens;
  for (std::int64_t step = 0; step < 200; ++step) {
    const std::int64_t count = 3 + step % 4;
    const HostBatch& batch = prefetcher.wait();
    shuffled.load(position, count, kWhole, expected);
    ASSERT_EQ(batch.tokens, expected.tokens);
    ASSERT_EQ(batch.targets, expected.targets);
    // The batch before stays until this wait; this one stays while the next is loaded.
    ASSERT_NE(&batch, previous);
    position += count;
    prefetcher.request(position, 3 + (step + 1) % 4);
    previous = &batch;
    ASSERT_EQ(batch.tokens, expected.tokens);
  }
  EXPECT_THROW(prefetcher.request(0, 1), Error);
}

TEST_F(LoaderTest, PrefetcherSurfacesWhatWentWrongAndGoesOn) {
  const Loader sequential = loader(5, Order::kSequential);
  Prefetcher prefetcher(sequential, kWhole, 2);
  EXPECT_THROW(prefetcher.wait(), Error);
  prefetcher.request(sequential.num_instances() - 1, 2);
  EXPECT_THROW(prefetcher.wait(), Error);
  EXPECT_FALSE(prefetcher.has_request());
  prefetcher.request(0, 2);
  EXPECT_EQ(prefetcher.wait().num_sequences, 2);
  prefetcher.request(0, 2);  // and is left open
}

TEST_F(LoaderTest, RefusesNoSources) {
  EXPECT_THROW(Loader({}, {.sequence_length = 8}), InputError);
}

}  // namespace
}  // namespace ulmus::data
