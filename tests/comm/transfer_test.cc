#include "ulmus/comm/transfer.h"

#include <gtest/gtest.h>

#include "tests/comm/rank_values.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm {
namespace {

std::vector<std::int64_t> ends_of(std::int64_t total_bytes) {
  const Chunks chunks{.total_bytes = total_bytes, .chunk_bytes = 10};
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    EXPECT_EQ(chunks.begin(i), i == 0 ? 0 : ends.back());
    ends.push_back(chunks.end(i));
  }
  return ends;
}

TEST(TransferTest, TheFirstChunkIsTheOddOne) {
  EXPECT_EQ(ends_of(0), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(ends_of(9), (std::vector<std::int64_t>{9}));
  EXPECT_EQ(ends_of(10), (std::vector<std::int64_t>{10}));
  EXPECT_EQ(ends_of(23), (std::vector<std::int64_t>{3, 13, 23}));
  const Chunks huge{.total_bytes = std::int64_t{3} << 40U, .chunk_bytes = 1 << 22U};
  EXPECT_EQ(huge.count(), 3 << 18U);
  EXPECT_EQ(huge.end(huge.count() - 1), huge.total_bytes);
}

/// More chunks than may be under way at once, for each number of them around the window.
TEST(TransferTest, ChunksFollowEachOther) {
  constexpr std::int64_t kChunk = 64;
  const auto ranks = make_thread_transports(2);
  Transfer send;
  Transfer receive;
  EXPECT_TRUE(send.is_done()) << "nothing was started";
  for (std::int64_t num_chunks = 1; num_chunks <= 3 * Transfer::kWindow; ++num_chunks) {
    const auto values = test::rank_values<std::int64_t>(0, num_chunks * kChunk / 8 - 3);
    std::vector<std::int64_t> received(values.size());
    send.send({*ranks[0], 1, 0}, std::as_bytes(std::span(values)), kChunk);
    receive.receive({*ranks[1], 0, 0}, std::as_writable_bytes(std::span(received)), kChunk);
    std::int64_t num_ended = 0;
    for (int round = 0; round < 100 && !(send.is_done() && receive.is_done()); ++round) {
      num_ended += receive.advance();
      num_ended += send.advance();
    }
    EXPECT_TRUE(send.is_done() && receive.is_done());
    EXPECT_EQ(num_ended, 2 * num_chunks);
    EXPECT_EQ(received, values);
  }
}

TEST(TransferTest, DestroyedHalfwayItLeavesNothingBehind) {
  const auto ranks = make_thread_transports(2);
  std::vector<std::byte> received(100);
  {
    const std::vector<std::byte> bytes(100);
    Transfer send;
    send.send({*ranks[0], 1, 0}, bytes, 10);
    Transfer receive;
    receive.receive({*ranks[1], 0, 0}, std::span(received).first(20), 10);
    EXPECT_EQ(receive.advance(), 2);
  }
  Transfer receive;
  receive.receive({*ranks[1], 0, 0}, received, 10);
  EXPECT_EQ(receive.advance(), 0);
}

}  // namespace
}  // namespace ulmus::comm
