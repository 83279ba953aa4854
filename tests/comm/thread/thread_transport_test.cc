#include "ulmus/comm/thread/thread_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/message_of.h"
#include "ulmus/comm/tag.h"

namespace ulmus::comm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kTag =
    Tag{.group = 1, .number = 2, .kind = OperationKind::kAllToAll}.packed();
constexpr std::uint32_t kOtherTag = Tag{.group = 1, .number = 3}.packed();

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return std::byte(c); });
  return bytes;
}

/// Two ends in one thread.
class ThreadTransportTest : public testing::Test {
 protected:
  std::vector<std::unique_ptr<Transport>> ranks_ = make_thread_transports(2);
  Transport& sender_ = *ranks_[0];
  Transport& receiver_ = *ranks_[1];
};

TEST_F(ThreadTransportTest, OneTagKeepsItsOrderWhicheverIsAskedFirst) {
  const std::vector<std::byte> first = bytes_of("ab");
  const std::vector<std::byte> second = bytes_of("cd");
  std::vector<std::byte> to_first(2);
  std::vector<std::byte> to_second(2);
  const RequestId receive_first = receiver_.start_receive(0, kTag, to_first);
  const RequestId receive_second = receiver_.start_receive(0, kTag, to_second);
  EXPECT_FALSE(receiver_.test(receive_first));
  const RequestId send_first = sender_.start_send(1, kTag, first);
  const RequestId send_second = sender_.start_send(1, kTag, second);
  EXPECT_FALSE(sender_.test(send_first));
  EXPECT_TRUE(receiver_.test(receive_second));
  EXPECT_TRUE(receiver_.test(receive_first));
  EXPECT_TRUE(sender_.test(send_second));
  EXPECT_TRUE(sender_.test(send_first));
  EXPECT_EQ(to_first, first);
  EXPECT_EQ(to_second, second);
}

TEST_F(ThreadTransportTest, TagsMayOvertakeEachOther) {
  const std::vector<std::byte> bytes = bytes_of("ab");
  std::vector<std::byte> received(2);
  const RequestId send = sender_.start_send(1, kTag, bytes);
  const RequestId empty = sender_.start_send(1, kOtherTag, {});
  const RequestId receive_empty = receiver_.start_receive(0, kOtherTag, {});
  EXPECT_TRUE(receiver_.test(receive_empty));
  EXPECT_TRUE(sender_.test(empty));
  EXPECT_FALSE(sender_.test(send));
  const RequestId receive = receiver_.start_receive(0, kTag, received);
  EXPECT_TRUE(receiver_.test(receive));
  EXPECT_TRUE(sender_.test(send));
  EXPECT_EQ(received, bytes);
}

TEST_F(ThreadTransportTest, LengthsThatDoNotAgree) {
  const std::vector<std::byte> bytes = bytes_of("abc");
  std::vector<std::byte> received(2);
  sender_.start_send(1, kTag, bytes);
  const RequestId receive = receiver_.start_receive(0, kTag, received);
  EXPECT_EQ(ulmus::test::message_of<Error>([&] { receiver_.test(receive); }),
            "rank 0 sends 3 bytes, rank 1 expects 2 (all_to_all 2 of group #1)");
}

TEST_F(ThreadTransportTest, WhatIsGivenUpIsNotTouched) {
  std::vector<std::byte> received(2);
  const RequestId receive = receiver_.start_receive(0, kTag, received);
  {
    const std::vector<std::byte> bytes = bytes_of("ab");
    sender_.abandon(sender_.start_send(1, kTag, bytes));
  }
  EXPECT_FALSE(receiver_.test(receive));
  receiver_.abandon(receive);
  const std::vector<std::byte> bytes = bytes_of("cd");
  const RequestId send = sender_.start_send(1, kTag, bytes);
  EXPECT_FALSE(sender_.test(send)) << "the receive is gone, too";
  ranks_[0].reset();  // gives up the rest
  std::vector<std::byte> later(2);
  EXPECT_FALSE(receiver_.test(receiver_.start_receive(0, kTag, later)));
}

/// Either the whole message arrived as it was sent, or nothing: what happens to the sender's buffer
/// after it gave up shows in neither.
TEST_F(ThreadTransportTest, ASenderGivesUpWhileTheReceiverCopies) {
  constexpr std::size_t kBytes = 1 << 20U;
  const std::vector<std::byte> nothing(kBytes);
  const std::vector<std::byte> everything(kBytes, std::byte{1});
  for (int repetition = 0; repetition < 50; ++repetition) {
    std::vector<std::byte> received = nothing;
    bool has_arrived = false;
    {
      std::atomic<bool> may_go{false};
      std::jthread thread([&] {
        const RequestId receive = receiver_.start_receive(0, kTag, received);
        may_go.store(true);
        may_go.notify_one();
        const Clock::time_point end = Clock::now() + std::chrono::milliseconds(2);
        while (Clock::now() < end && !has_arrived) {
          has_arrived = receiver_.test(receive);
        }
        if (!has_arrived) receiver_.abandon(receive);
      });
      std::vector<std::byte> bytes = everything;
      may_go.wait(false);
      sender_.abandon(sender_.start_send(1, kTag, bytes));
      std::fill(bytes.begin(), bytes.end(), std::byte{2});
    }
    ASSERT_TRUE(received == (has_arrived ? everything : nothing)) << repetition;
  }
}

TEST_F(ThreadTransportTest, WaitingEndsWithAMessageANoticeOrTheDeadline) {
  const Clock::time_point far = Clock::now() + std::chrono::hours(1);
  sender_.start_send(1, kTag, {});
  receiver_.wait_for_change(far);
  const RequestId receive = receiver_.start_receive(0, kTag, {});
  EXPECT_TRUE(receiver_.test(receive));
  sender_.wait_for_change(far);  // the message was taken
  sender_.post_notice(Notice::Kind::kFailed, "no such thing");
  receiver_.wait_for_change(far);
  const Clock::time_point soon = Clock::now() + std::chrono::milliseconds(20);
  receiver_.wait_for_change(soon);
  EXPECT_GE(Clock::now(), soon);
}

TEST_F(ThreadTransportTest, NoticesReachTheOthersInOrder) {
  sender_.post_notice(Notice::Kind::kWaiting, std::string(2000, 'x'));
  sender_.post_notice(Notice::Kind::kFailed, "no such thing");
  EXPECT_FALSE(sender_.poll_notice().has_value());
  std::optional<Notice> notice = receiver_.poll_notice();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->kind, Notice::Kind::kWaiting);
  EXPECT_EQ(notice->from, 0);
  EXPECT_EQ(notice->text.size(), Transport::kMaxNoticeBytes);
  notice = receiver_.poll_notice();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->kind, Notice::Kind::kFailed);
  EXPECT_EQ(notice->text, "no such thing");
  EXPECT_FALSE(receiver_.poll_notice().has_value());
}

TEST_F(ThreadTransportTest, MoreMessagesThanWereReserved) {
  constexpr std::size_t kMessages = 3000;
  std::vector<RequestId> sends;
  for (std::size_t i = 0; i < kMessages; ++i) {
    sends.push_back(sender_.start_send(1, kTag, {}));
  }
  for (std::size_t i = 0; i < kMessages; ++i) {
    EXPECT_TRUE(receiver_.test(receiver_.start_receive(0, kTag, {})));
  }
  for (const RequestId send : sends) {
    EXPECT_TRUE(sender_.test(send));
  }
}

TEST_F(ThreadTransportTest, RanksAndTagsThatDoNotExist) {
  EXPECT_THAT(ulmus::test::message_of<Error>([&] { sender_.start_send(2, kTag, {}); }),
              HasSubstr("rank 2 of 2"));
  EXPECT_THAT(ulmus::test::message_of<Error>([&] { sender_.start_receive(-1, kTag, {}); }),
              HasSubstr("rank -1 of 2"));
  EXPECT_THAT(
      ulmus::test::message_of<Error>([&] { sender_.start_send(1, 1U << Transport::kTagBits, {}); }),
      HasSubstr("tag 8388608"));
  EXPECT_THAT(ulmus::test::message_of<Error>([] { make_thread_transports(0); }),
              HasSubstr("a world of 0 ranks"));
}

TEST(RunThreadRanksTest, TheFirstCauseIsThrownWithItsRankAndKind) {
  EXPECT_EQ(ulmus::test::message_of<InputError>([] {
              run_thread_ranks(3, World::Options{}, [](World& world) {
                if (world.rank() == 1) throw InputError("no such key");
                world.all().barrier();
              });
            }),
            "rank 1: no such key");
  EXPECT_THAT(ulmus::test::message_of<CommError>([] {
                run_thread_ranks(2, {.timeout = std::chrono::milliseconds(50)}, [](World& world) {
                  if (world.rank() == 1) world.all().barrier();
                });
              }),
              StartsWith("rank 1: rank 0 did not answer within 0.05 s"));
  EXPECT_EQ(ulmus::test::message_of<Error>([] {
              run_thread_ranks(1, World::Options{},
                               [](World&) { throw std::runtime_error("foreign"); });
            }),
            "rank 0: foreign");
}

/// The ranks that run wait for one that never will: they hear of it long before their deadline.
TEST(RunThreadRanksTest, AThreadThatDoesNotStart) {
  constexpr std::chrono::minutes kNever(10);
  const Clock::time_point begin = Clock::now();
  int num_started = 0;
  const StartThread start = [&](std::function<void()> body) {
    if (++num_started == 3) throw std::runtime_error("no thread is left");
    return start_thread(std::move(body));
  };
  EXPECT_EQ(ulmus::test::message_of<Error>([&] {
              run_thread_ranks(
                  4, {.timeout = kNever}, [](World& world) { world.all().barrier(); }, start);
            }),
            "rank 2: its thread does not start: no thread is left");
  EXPECT_EQ(num_started, 3);
  EXPECT_LT(Clock::now() - begin, kNever);
}

}  // namespace
}  // namespace ulmus::comm
