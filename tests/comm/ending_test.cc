#include "ulmus/comm/ending.h"

#include <gtest/gtest.h>

#include <mutex>

#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm {
namespace {

template <class Exception>
Ending ending_of(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return ending_of_current();
  }
}

TEST(EndingTest, OfEachKindOfException) {
  EXPECT_EQ(ending_of(InputError("no such key")).message, "no such key");
  EXPECT_EQ(ending_of(InputError("no such key")).status, ExitCode::kUsage);
  EXPECT_EQ(ending_of(Error("x", ExitCode::kFailed, ErrorScope::kEveryRank)).scope,
            ErrorScope::kEveryRank);
  EXPECT_FALSE(ending_of(Error("x")).is_consequence);
  EXPECT_TRUE(ending_of(CommError("x")).is_consequence);
  EXPECT_EQ(ending_of(std::bad_alloc()).message, "out of memory");
  EXPECT_EQ(ending_of(std::runtime_error("foreign")).message, "foreign");
}

/// How each of three ranks parts when `ending_of` is its ending; an empty message is none.
std::vector<Parting> partings(std::chrono::milliseconds patience,
                              const std::function<Ending(int rank)>& ending_of_rank) {
  std::vector<Parting> partings(3, Parting::kTogether);
  run_thread_ranks(3, World::Options{}, [&](World& world) {
    const Ending ending = ending_of_rank(world.rank());
    if (ending.message.empty()) return;
    partings[static_cast<std::size_t>(world.rank())] = world.part(ending, patience);
  });
  return partings;
}

constexpr std::chrono::minutes kNever(10);

TEST(EndingTest, TheSameErrorOnAllRanks) {
  EXPECT_EQ(partings(kNever, [](int) { return Ending{.message = "no such key"}; }),
            std::vector(3, Parting::kTogether));
}

TEST(EndingTest, AnotherErrorOnOneRankIsHeardAtOnce) {
  EXPECT_EQ(
      partings(kNever, [](int rank) { return Ending{.message = rank == 1 ? "no such" : "key"}; }),
      std::vector(3, Parting::kAlone));
}

/// A rank without an error says nothing, and nobody waits for it for long.
TEST(EndingTest, NoErrorOnOneRank) {
  EXPECT_EQ(partings(std::chrono::milliseconds(20),
                     [](int rank) { return Ending{.message = rank == 0 ? "" : "no such key"}; }),
            (std::vector{Parting::kTogether, Parting::kAlone, Parting::kAlone}));
}

/// A rank that is a little behind meets its own error, not a failure of the others.
TEST(EndingTest, ARankBehindIsNotStopped) {
  run_thread_ranks(2, World::Options{}, [&](World& world) {
    if (world.rank() == 1) {
      EXPECT_EQ(world.part({.message = "no such key"}, kNever), Parting::kTogether);
      return;
    }
    for (int i = 0; i < 1000; ++i) {
      world.progress();
    }
    EXPECT_EQ(world.part({.message = "no such key"}, kNever), Parting::kTogether);
  });
}

}  // namespace
}  // namespace ulmus::comm
