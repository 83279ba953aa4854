#include "ulmus/comm/failure_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "tests/support/message_of.h"

namespace ulmus::comm {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using ulmus::test::message_of;

/// Rank 1 of three: notices come from the test, and what is posted is kept.
class NoticesOnly final : public Transport {
 public:
  int rank() const override { return 1; }
  int size() const override { return 3; }
  std::string_view backend() const override { return "test"; }
  int node_leader() const override { return 0; }
  void reserve(std::size_t /*num_requests*/) override {}
  RequestId start_send(int, std::uint32_t, std::span<const std::byte>) override { return 0; }
  RequestId start_receive(int, std::uint32_t, std::span<std::byte>) override { return 0; }
  bool test(RequestId /*request*/) override { return false; }
  void abandon(RequestId /*request*/) noexcept override {}
  bool is_intact() const override { return intact; }
  void wait_for_change(Clock::time_point /*until*/) override {}
  void post_notice(Notice::Kind kind, std::string_view text) noexcept override {
    posted.push_back({.kind = kind, .from = rank(), .text = std::string(text)});
  }
  std::optional<Notice> poll_notice() override {
    if (coming.empty()) return std::nullopt;
    Notice notice = coming.front();
    coming.pop_front();
    return notice;
  }

  bool intact = true;
  std::deque<Notice> coming;
  std::vector<Notice> posted;
};

class FailureWatchTest : public testing::Test {
 protected:
  using Kind = Notice::Kind;
  void hear(Kind kind, int from, const std::string& text) {
    transport_.coming.push_back({.kind = kind, .from = from, .text = text});
    watch_.read_notices();
  }
  /// Another rank ends with an error; its words are those that a rank like this one posts.
  void hear_ending(int from, const Ending& ending, bool is_intact = true) {
    NoticesOnly transport;
    transport.intact = is_intact;
    FailureWatch(transport, milliseconds(1)).end(ending);
    hear(Kind::kEnding, from, transport.posted[0].text);
  }

  NoticesOnly transport_;
  FailureWatch watch_{transport_, milliseconds(60000)};
  const Ending refusal_{.message = "no such\nkey", .status = ExitCode::kUsage};
};

TEST_F(FailureWatchTest, NothingHasHappened) {
  watch_.read_notices();
  watch_.check();
  EXPECT_FALSE(watch_.has_failed());
  EXPECT_FALSE(watch_.must_speak(Clock::now() + std::chrono::hours(1)));
  EXPECT_TRUE(watch_.must_speak(Clock::now()));
}

TEST_F(FailureWatchTest, AFailureIsRaisedWithItsReason) {
  hear(Kind::kFailed, 2, "no such thing");
  hear(Kind::kFailed, 0, "another, later");
  EXPECT_EQ(message_of<CommError>([&] { watch_.check(); }), "rank 2 failed: no such thing");
  EXPECT_EQ(message_of<CommError>([&] { watch_.raise("rank 1 waits"); }),
            "rank 2 failed: no such thing; rank 1 waits");
  watch_.fail("a consequence");
  EXPECT_TRUE(transport_.posted.empty()) << "the others know";
}

TEST_F(FailureWatchTest, TheOwnFailureIsPostedOnce) {
  watch_.fail("broken");
  watch_.fail("again");
  ASSERT_EQ(transport_.posted.size(), 1U);
  EXPECT_EQ(transport_.posted[0].text, "broken");
  EXPECT_EQ(message_of<CommError>([&] { watch_.check(); }), "rank 1 failed: broken");
}

TEST_F(FailureWatchTest, WhoDoesNotAnswerIsNamedAfterTheGrace) {
  FailureWatch watch(transport_, milliseconds(20));
  watch.speak("rank 1 waits for rank 0");
  watch.conclude_if_due();
  const Clock::time_point grace_end = watch.due(Clock::now());
  while (Clock::now() < grace_end) {
  }
  EXPECT_EQ(message_of<CommError>([&] { watch.conclude_if_due(); }),
            "ranks 0 and 2 did not answer within 0.02 s; rank 1 waits for rank 0");
}

TEST_F(FailureWatchTest, WhenAllAnswerTheirWordsAreListed) {
  hear(Kind::kWaiting, 0, "rank 0 waits");
  EXPECT_TRUE(watch_.must_speak(Clock::now() + std::chrono::hours(1)));
  EXPECT_EQ(message_of<CommError>([&] { watch_.check(); }),
            "rank 1 was not waiting when rank 0 waits");
  watch_.speak("rank 1 waits");
  watch_.conclude_if_due();
  hear(Kind::kWaiting, 2, "rank 2 waits");
  EXPECT_THAT(message_of<CommError>([&] { watch_.conclude_if_due(); }),
              HasSubstr("rank 0 waits; rank 1 waits; rank 2 waits"));
}

TEST_F(FailureWatchTest, NoticesOfRanksThatDoNotExist) {
  for (const int from : {-1, 3, -32766}) {
    EXPECT_THAT(message_of<Error>([&] { hear(Kind::kWaiting, from, "?"); }),
                HasSubstr(concat("a notice from rank ", from, " of 3")));
  }
}

TEST_F(FailureWatchTest, TheSameErrorEverywhereEndsTogether) {
  watch_.end(refusal_);
  EXPECT_FALSE(watch_.parting().has_value());
  hear_ending(2, refusal_);
  EXPECT_FALSE(watch_.parting().has_value());
  hear_ending(0, refusal_);
  EXPECT_EQ(watch_.parting(), Parting::kTogether);
  watch_.check();  // at an ending nobody raises
}

TEST_F(FailureWatchTest, GivenUpMessagesAnywhereTearIt) {
  watch_.end(refusal_);
  hear_ending(0, refusal_, false);
  hear_ending(2, refusal_);
  EXPECT_EQ(watch_.parting(), Parting::kTorn);
}

TEST_F(FailureWatchTest, AnotherMessageOrStatusEndsAlone) {
  Ending other = refusal_;
  other.message += '!';
  watch_.end(refusal_);
  hear_ending(2, other);
  EXPECT_EQ(watch_.parting(), Parting::kAlone);
  other = refusal_;
  other.status = ExitCode::kFailed;
  hear_ending(2, other);
  EXPECT_EQ(watch_.parting(), Parting::kAlone);
}

TEST_F(FailureWatchTest, LongMessagesAreComparedByTheirBeginning) {
  const Ending long_ending{.message = std::string(5000, 'x')};
  watch_.end(long_ending);
  EXPECT_LE(transport_.posted[0].text.size(), Transport::kMaxNoticeBytes);
  hear_ending(0, long_ending);
  hear_ending(2, long_ending);
  EXPECT_EQ(watch_.parting(), Parting::kTogether);
}

TEST_F(FailureWatchTest, AConsequenceLeavesTheEndToItsCause) {
  const Ending consequence{.message = "rank 0 failed", .is_consequence = true};
  watch_.end(consequence);
  EXPECT_EQ(watch_.parting(), Parting::kAlone) << "a deadline: nobody else ends this";
  hear(Kind::kFailed, 0, "no such thing");
  EXPECT_FALSE(watch_.parting().has_value());
}

TEST(NameRanksTest, FewAndMany) {
  EXPECT_EQ(name_ranks({}), "no rank");
  EXPECT_EQ(name_ranks({3, 3}), "rank 3");
  EXPECT_EQ(name_ranks({2, 1, 2}), "ranks 1 and 2");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 4, 5, 6, 7}), "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0, 1, 2, 3, 4, 5, 6 and 2 others");
}

}  // namespace
}  // namespace ulmus::comm
