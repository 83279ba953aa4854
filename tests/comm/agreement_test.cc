#include "ulmus/comm/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/message_of.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm {
namespace {

using testing::Each;
using testing::StartsWith;

struct Thrown {
  std::string message;
  ExitCode status = ExitCode::kDone;
  ErrorScope scope = ErrorScope::kThisRank;
};

/// What agree() throws on each of three ranks.
std::vector<Thrown> thrown_by(const std::function<void(int rank)>& body) {
  std::vector<Thrown> thrown(3);
  run_thread_ranks(3, World::Options{}, [&](World& world) {
    try {
      agree(world.all(), [&] { body(world.rank()); });
    } catch (const Error& error) {
      thrown[static_cast<std::size_t>(world.rank())] = {error.what(), error.exit_code(),
                                                        error.scope()};
    }
    world.all().barrier();  // the world goes on
  });
  return thrown;
}

TEST(AgreementTest, NobodyFails) {
  int num_calls = 0;
  std::mutex mutex;
  for (const Thrown& thrown : thrown_by([&](int) {
         const std::lock_guard lock(mutex);
         ++num_calls;
       })) {
    EXPECT_EQ(thrown.message, "");
  }
  EXPECT_EQ(num_calls, 3);
}

TEST(AgreementTest, TheLowestRankThatFailedSpeaksForAll) {
  for (const Thrown& thrown : thrown_by([](int rank) {
         if (rank == 1) throw DifferenceError("one");
         if (rank == 2) throw InputError("two");
       })) {
    EXPECT_EQ(thrown.message, "one");
    EXPECT_EQ(thrown.status, ExitCode::kDifference);
    EXPECT_EQ(thrown.scope, ErrorScope::kEveryRank);
  }
}

TEST(AgreementTest, ForeignExceptionsFail) {
  for (const Thrown& thrown : thrown_by([](int rank) {
         if (rank == 2) throw std::runtime_error("foreign");
       })) {
    EXPECT_EQ(thrown.message, "foreign");
    EXPECT_EQ(thrown.status, ExitCode::kFailed);
  }
}

TEST(AgreementTest, LongMessagesAreCut) {
  for (const Thrown& thrown : thrown_by([](int rank) {
         if (rank == 0) throw Error(std::string(5000, 'x'));
       })) {
    EXPECT_EQ(thrown.message, std::string(4080, 'x'));
  }
}

/// It says that the ranks cannot talk, so they do not.
TEST(AgreementTest, ACommErrorGoesThrough) {
  std::vector<std::string> messages(2);
  EXPECT_THAT(ulmus::test::message_of<CommError>([&] {
                run_thread_ranks(2, World::Options{}, [&](World& world) {
                  try {
                    agree(world.all(), [&] {
                      if (world.rank() == 1) throw CommError("lost");
                    });
                  } catch (const CommError& error) {
                    messages[static_cast<std::size_t>(world.rank())] = error.what();
                    throw;
                  }
                });
              }),
              testing::HasSubstr("lost"));
  EXPECT_EQ(messages[1], "lost");
  EXPECT_THAT(messages[0], StartsWith("rank 1 failed: lost; rank 0 waits for rank 1 in "));
}

TEST(AgreementTest, AGroupOfOneThrowsTheExceptionItself) {
  EXPECT_EQ(ulmus::test::message_of<Error>([] {
              run_thread_ranks(1, World::Options{}, [](World& world) {
                try {
                  agree(world.all(), [] { throw InputError("itself"); });
                } catch (const InputError& error) {
                  EXPECT_EQ(error.scope(), ErrorScope::kThisRank);
                  throw;
                }
              });
            }),
            "rank 0: itself");
}

}  // namespace
}  // namespace ulmus::comm
