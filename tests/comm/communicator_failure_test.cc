#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/failing_ranks.h"

namespace ulmus::comm {
namespace {

using std::chrono::milliseconds;
using test::Ending;
using test::Frozen;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::StartsWith;

/// Long enough that a rank that is only waiting for a core is not taken for a frozen one.
constexpr milliseconds kTimeout{500};
/// For tests in which nothing may run into a deadline.
constexpr milliseconds kNever{60000};

class EachOperationFails : public testing::TestWithParam<std::size_t> {
 protected:
  const test::NamedOperation operation_ = test::all_operations()[GetParam()];
};

TEST_P(EachOperationFails, WhenARankThrows) {
  const Ending ending = test::run_failing(3, kNever, [&](World& world, Device& device, Frozen&) {
    const auto group = world.make_group("dense", {{0, 1, 2}});
    operation_.run(*group, device);
    group->barrier();
    if (world.rank() == 1) throw InputError("no such thing");
    for (;;) {
      operation_.run(*group, device);
    }
  });
  EXPECT_EQ(ending.thrown, "rank 1: no such thing");
  for (const std::size_t rank : {0U, 2U}) {
    // The failure may be heard before the end of the barrier.
    EXPECT_THAT(
        ending.messages[rank],
        MatchesRegex(concat("rank 1 failed: no such thing; rank ", rank, " waits for .* in (",
                            operation_.name, " [0-9]+|barrier 3) of group dense .*")));
  }
}

TEST_P(EachOperationFails, WhenARankDoesNotCome) {
  const Ending ending =
      test::run_failing(3, kTimeout, [&](World& world, Device& device, Frozen& frozen) {
        const auto group = world.make_group("dense", {{0, 1, 2}});
        if (world.rank() == 2) return frozen.wait_for_failure_of_others();
        for (;;) {  // a broadcast's root goes on until somebody misses it
          operation_.run(*group, device);
        }
      });
  EXPECT_THAT(ending.messages[2], IsEmpty());
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(ending.messages[rank],
                AllOf(StartsWith("rank 2 did not answer within 0.5 s; "),
                      HasSubstr(concat("rank ", rank, " waits for rank")),
                      HasSubstr(concat(" in ", operation_.name, " 2 of group dense"))));
  }
}

TEST_P(EachOperationFails, WhenRanksSwapIt) {
  const std::vector<test::NamedOperation> operations = test::all_operations();
  const test::NamedOperation& other = operations[(GetParam() + 1) % operations.size()];
  const Ending ending = test::run_failing(2, kNever, [&](World& world, Device& device, Frozen&) {
    const auto group = world.make_group("dense", {{0, 1}});
    const bool is_first = world.rank() == 0;
    (is_first ? operation_ : other).run(*group, device);
    (is_first ? other : operation_).run(*group, device);
  });
  // Whoever looks first finds it.
  const std::string one = operation_.name;
  const std::string two = other.name;
  EXPECT_THAT(ending.thrown,
              testing::AnyOf(AllOf(StartsWith(concat("rank 0: ", one, " 2 of group dense: ")),
                                   HasSubstr(concat("rank 1 is in ", two, " 2"))),
                             AllOf(StartsWith(concat("rank 1: ", two, " 2 of group dense: ")),
                                   HasSubstr(concat("rank 0 is in ", one, " 2")))));
  EXPECT_THAT(ending.messages[0], testing::Not(IsEmpty()));
  EXPECT_THAT(ending.messages[1], testing::Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(All, EachOperationFails,
                         testing::Range(std::size_t{0}, test::all_operations().size()));

TEST(CommunicatorFailureTest, TheFrozenRankIsNamedThroughOthers) {
  const Ending ending = test::run_failing(3, kTimeout, [](World& world, Device&, Frozen& frozen) {
    const auto low = world.make_group("low", {{0, 1}, {2}});
    const auto high = world.make_group("high", {{0}, {1, 2}});
    if (world.rank() == 0) low->barrier();
    if (world.rank() == 1) {
      // Its own patience would last longer than what rank 0 grants after its own is over.
      const Clock::time_point late = Clock::now() + kTimeout * 8 / 10;
      while (Clock::now() < late) {
        world.progress();
      }
      high->barrier();
    }
    if (world.rank() == 2) frozen.wait_for_failure_of_others();
  });
  EXPECT_THAT(ending.messages[0],
              MatchesRegex("rank 2 did not answer within 0.5 s; rank 0 waits for rank 1 in barrier "
                           "2 of group low .*"));
  EXPECT_THAT(ending.messages[1],
              MatchesRegex("rank 2 did not answer within 0.5 s; rank 1 waits for rank 2 in barrier "
                           "2 of group high .*"));
}

TEST(CommunicatorFailureTest, SwappedGroupsAreListed) {
  const Ending ending = test::run_failing(2, kTimeout, [](World& world, Device&, Frozen&) {
    const auto one = world.make_group("one", {{0, 1}});
    const auto two = world.make_group("two", {{0, 1}});
    (world.rank() == 0 ? one : two)->barrier();
    (world.rank() == 0 ? two : one)->barrier();
  });
  for (const std::string& message : ending.messages) {
    EXPECT_THAT(message, AllOf(StartsWith("no rank goes on: their operations do not match"),
                               HasSubstr("rank 0 waits for rank 1 in barrier 2 of group one"),
                               HasSubstr("rank 1 waits for rank 0 in barrier 2 of group two")));
  }
}

TEST(CommunicatorFailureTest, ABusyRankIsToldWhenItLooks) {
  const Ending ending = test::run_failing(2, kTimeout, [](World& world, Device&, Frozen& frozen) {
    if (world.rank() == 0) world.all().barrier();
    frozen.wait_for_failure_of_others();
    world.progress();
  });
  EXPECT_THAT(ending.messages[0], StartsWith("rank 1 did not answer within 0.5 s; "));
  EXPECT_THAT(ending.messages[1],
              StartsWith("rank 1 was not waiting when rank 0 waits for rank 1 in barrier 1 of "
                         "group world"));
}

TEST(CommunicatorFailureTest, ARankThatEndedIsMissing) {
  const Ending ending = test::run_failing(2, kTimeout, [](World& world, Device&, Frozen&) {
    if (world.rank() == 0) world.all().barrier();
  });
  EXPECT_THAT(ending.messages[0], StartsWith("rank 1 did not answer within 0.5 s; "));
}

TEST(CommunicatorFailureTest, ADoneWorldStaysDone) {
  const Ending ending = test::run_failing(2, kNever, [](World& world, Device&, Frozen&) {
    if (world.rank() == 1) throw Error("broken");
    std::string first;
    try {
      world.all().barrier();
    } catch (const CommError& error) {
      first = error.what();
    }
    EXPECT_THAT(first, StartsWith("rank 1 failed: broken"));
    EXPECT_THROW(world.all().barrier(), CommError);
    EXPECT_THROW(world.progress(), CommError);
    throw CommError(first);
  });
  EXPECT_EQ(ending.thrown, "rank 1: broken") << "the cause, not its consequence";
}

/// Lengths that do not agree are an error of the receiver, which names both.
TEST(CommunicatorFailureTest, LengthsThatDoNotAgree) {
  for (const bool sends_more : {true, false}) {
    const Ending ending = test::run_failing(2, kNever, [&](World& world, Device& device, Frozen&) {
      const std::int64_t sent = world.rank() == 0 && sends_more ? 5 : 4;
      const std::int64_t expected = world.rank() == 1 && !sends_more ? 5 : 4;
      std::vector<float> in(16);
      std::vector<float> out(16);
      const auto own = static_cast<std::int64_t>(world.rank());
      // One row stays here.
      const PieceBounds in_begin{0, own == 0 ? 1 : sent, 1 + sent};
      const PieceBounds out_begin{0, own == 0 ? 1 : expected, 1 + expected};
      AllToAll operation(world.all(), device);
      operation.start(test::view_of(out), out_begin, test::view_of(in), in_begin);
      operation.wait();
    });
    const int bytes_sent = sends_more ? 20 : 16;
    const int bytes_expected = sends_more ? 16 : 20;
    EXPECT_THAT(ending.messages[1], HasSubstr(concat("all_to_all 1 of group world: ")));
    EXPECT_THAT(ending.messages[1], HasSubstr(concat("rank 0 sends ", bytes_sent,
                                                     " bytes, rank 1 expects ", bytes_expected)));
    EXPECT_THAT(ending.messages[0], HasSubstr("rank 1 failed: "));
  }
}

/// A rank unwinds while others still read and write: its buffers go, and nobody touches them.
TEST(CommunicatorFailureTest, BuffersMayGoWhileMessagesAreUnderWay) {
  constexpr std::int64_t kElements = 3 << 20U;
  for (int repetition = 0; repetition < 4; ++repetition) {
    const Ending ending = test::run_failing(3, kNever, [&](World& world, Device& device, Frozen&) {
      const PieceBounds begin{0, kElements / 3, 2 * (kElements / 3), kElements};
      std::vector<float> buffer(kElements);
      test::Staging staging(ReduceScatter::staging_bytes(begin, DType::kF32));
      ReduceScatter scatter(world.all(), test::view_of(buffer), begin, staging.view(), device);
      AllGather gather(world.all(), test::view_of(buffer), begin, device);
      scatter.start();
      for (int i = 0; i < repetition; ++i) {
        world.progress();
      }
      if (world.rank() == 1) throw Error("broken");
      scatter.wait();
      gather.start();
      gather.wait();
    });
    EXPECT_EQ(ending.thrown, "rank 1: broken");
  }
}

}  // namespace
}  // namespace ulmus::comm
