#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/comm/failing_ranks.h"
#include "tests/support/mpirun_environment.h"

namespace ulmus::comm {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

/// What mpirun printed, its exit status, and what each rank left behind.
struct Launch {
  int status = 0;
  std::string output;
  std::vector<std::string> messages;
  std::chrono::milliseconds time{};
};

class MpiFailureTest : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr int kRanks = 3;
  /// Longer than mpirun takes to start all ranks on a machine with few cores.
  static constexpr int kTimeoutMs = 1000;

  static void SetUpTestSuite() { ulmus::test::allow_mpirun(); }
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              concat("mpi_failures_", static_cast<const void*>(this), "_", GetParam());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Launch run(const std::string& scenario, int timeout_ms) {
    const std::string command =
        concat(ULMUS_TEST_MPIEXEC, " -n ", kRanks, " --oversubscribe ", ULMUS_TEST_MPI_FAILURES,
               ' ', scenario, ' ', GetParam(), ' ', timeout_ms, ' ', folder_.string(), " 2>&1");
    Launch result;
    const auto start = std::chrono::steady_clock::now();
    std::FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      result.output.append(buffer.data(), n);
    }
    result.status = pclose(pipe);
    result.time = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::ifstream file(folder_ / std::to_string(rank));
      result.messages.emplace_back(std::istreambuf_iterator<char>(file),
                                   std::istreambuf_iterator<char>());
    }
    EXPECT_NE(result.status, 0) << result.output;
    EXPECT_LT(result.time, std::chrono::seconds(20)) << result.output;
    return result;
  }

  std::string operation() const { return test::all_operations()[GetParam()].name; }

  std::filesystem::path folder_;
};

class EachMpiOperationFails : public MpiFailureTest {};

TEST_P(EachMpiOperationFails, WhenARankThrows) {
  const Launch ended = run("throws", 60000);
  EXPECT_EQ(ended.messages[2], "no such thing");
  for (const std::size_t rank : {0U, 1U}) {
    // The failure may be heard before the end of the barrier.
    EXPECT_THAT(ended.messages[rank], MatchesRegex(concat("rank 2 failed: no such thing; rank ",
                                                          rank, " waits for .* in (", operation(),
                                                          " [0-9]+|barrier 3) of group dense .*")));
  }
}

TEST_P(EachMpiOperationFails, WhenARankIsStopped) {
  const Launch ended = run("stopped", kTimeoutMs);
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(ended.messages[rank],
                AllOf(StartsWith("rank 2 did not answer within 1 s; "),
                      HasSubstr(concat("rank ", rank, " waits for ")),
                      HasSubstr(concat(" in ", operation(), " ")), HasSubstr(" of group dense")));
  }
}

TEST_P(EachMpiOperationFails, WhenRanksSwapIt) {
  const std::vector<test::NamedOperation> operations = test::all_operations();
  const std::string other = operations[(GetParam() + 1) % operations.size()].name;
  const Launch ended = run("swapped", kTimeoutMs);
  for (const std::string& message : ended.messages) {
    EXPECT_THAT(message, AllOf(StartsWith("no rank goes on: their operations do not match"),
                               HasSubstr("rank 0 waits for "), HasSubstr("rank 1 waits for "),
                               HasSubstr("rank 2 waits for "),
                               HasSubstr(concat(" in ", operation(), " 4 of group dense"))));
    // The root of a broadcast goes on: small messages leave without the receiver.
    if (other == "broadcast") continue;
    EXPECT_THAT(message, HasSubstr(concat(" in ", other, " 4 of group dense")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachMpiOperationFails,
                         testing::Range(std::size_t{0}, test::all_operations().size()));

using MpiTransportFailureTest = MpiFailureTest;

/// A rank that is frozen where MPI itself waits for it: the others end, and say in which call.
TEST_P(MpiTransportFailureTest, ARankThatIsStoppedBeforeMpiStarts) {
  const Launch ended = run("before_init", kTimeoutMs);
  EXPECT_THAT(ended.output,
              ContainsRegex("error: rank [01]: MPI_Init_thread did not return within 1 s"));
}

TEST_P(MpiTransportFailureTest, ARankThatIsStoppedBeforeItsWorld) {
  const Launch ended = run("before_world", kTimeoutMs);
  EXPECT_THAT(ended.output,
              ContainsRegex("error: rank [01]: MPI_Comm_dup did not return within 1 s"));
}

TEST_P(MpiTransportFailureTest, ARankThatIsStoppedBeforeTheEnd) {
  const Launch ended = run("before_finalize", kTimeoutMs);
  EXPECT_THAT(ended.output,
              ContainsRegex("error: rank [01]: MPI_Finalize did not return within 1 s"));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// Every rank throws the same by itself: told once, and all end by themselves.
TEST_P(MpiTransportFailureTest, AnErrorThatAllRanksMeet) {
  const Launch ended = run("end_same", 60000);
  EXPECT_EQ(WEXITSTATUS(ended.status), 2);
  EXPECT_EQ(count(ended.output, "error: no such key"), 1U) << ended.output;
  EXPECT_EQ(count(ended.output, "no such key"), 1U) << ended.output;
  EXPECT_EQ(count(ended.output, "MPI_ABORT"), 0U) << ended.output;
}

/// Every rank knows the error, but one has a message under way, so MPI must not be finalised.
TEST_P(MpiTransportFailureTest, AnErrorOfAllRanksWithMessagesUnderWay) {
  const Launch ended = run("end_torn", 60000);
  EXPECT_EQ(WEXITSTATUS(ended.status), 2);
  EXPECT_EQ(count(ended.output, "error: no such key"), 1U) << ended.output;
  EXPECT_EQ(count(ended.output, "no such key"), 1U) << ended.output;
}

/// The status is that of the rank that failed, not of those that waited for it.
TEST_P(MpiTransportFailureTest, AnErrorOfOneRank) {
  const Launch ended = run("end_alone", 60000);
  EXPECT_EQ(WEXITSTATUS(ended.status), 2);
  EXPECT_EQ(count(ended.output, "error: rank 2: no such key"), 1U) << ended.output;
}

/// The launcher sees a process that dies, and ends the others.
TEST_P(MpiTransportFailureTest, AKilledRank) {
  const Launch ended = run("killed", 60000);
  EXPECT_THAT(ended.output, HasSubstr("on signal 9"));
}

TEST_P(MpiTransportFailureTest, AMessageThatIsTooLong) {
  const Launch ended = run("longer", 60000);
  EXPECT_THAT(ended.messages[2], AllOf(StartsWith("all_to_all 1 of group world: rank 0 sends 80000 "
                                                  "bytes, rank 2 expects 16 ")));
  EXPECT_THAT(ended.messages[0], StartsWith("rank 2 failed: all_to_all 1 of group world: "));
}

TEST_P(MpiTransportFailureTest, AMessageThatIsTooShort) {
  const Launch ended = run("shorter", 60000);
  EXPECT_THAT(ended.messages[2], AllOf(StartsWith("all_to_all 1 of group world: rank 0 sends 16 "
                                                  "bytes, rank 2 expects 80000 ")));
}

INSTANTIATE_TEST_SUITE_P(Barrier, MpiTransportFailureTest, testing::Values(std::size_t{0}));

}  // namespace
}  // namespace ulmus::comm
