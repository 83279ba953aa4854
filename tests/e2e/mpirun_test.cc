#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/mpirun_environment.h"
#include "tests/train/small_run.h"
#include "ulmus/base/file.h"
#include "ulmus/checkpoint/checkpoint.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

/// The program on several ranks, started as a user does.
class Mpirun : public testing::Test {
 protected:
  static void SetUpTestSuite() { allow_mpirun(); }
  static std::vector<std::string> on(int ranks, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"-n", std::to_string(ranks), "--oversubscribe", ULMUS_TEST_PROGRAM});
    return arguments;
  }
  static Finished run(const std::vector<std::string>& words) {
    return Program(ULMUS_TEST_MPIEXEC, words).finish();
  }
  std::vector<std::string> training(const std::string& name, int steps,
                                    const std::vector<std::string>& keys = {}) {
    std::vector<std::string> words = {
        "train", folder_.write(name + ".toml", small_.config_text(name)),
        "--set", concat("run.max_steps=", steps),
        "--set", "device.threads=1"};
    for (const std::string& key : keys)
      words.insert(words.end(), {"--set", key});
    return words;
  }
  std::filesystem::path checkpoints(const std::string& name) const {
    return small_.folder() / name / "checkpoints";
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  }

  /// The processes that mpirun started, by rank.
  static std::vector<pid_t> children_of(pid_t parent) {
    std::ifstream file(concat("/proc/", parent, "/task/", parent, "/children"));
    std::vector<pid_t> children;
    for (pid_t child = 0; file >> child;)
      children.push_back(child);
    return children;
  }

  SmallRun small_;
  TestFolder folder_;
};

TEST_F(Mpirun, TrainsToTheBitsOfThreads) {
  const Finished finished = run(on(4, training("processes", 6, {"parallel.expert=2"})));
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(count(finished.out, "step 6, 1,536 tokens"), 1U) << finished.out;
  const train::Config config =
      small_.config("threads", {"run.max_steps=6", "parallel.expert=2", "device.threads=1"});
  comm::run_thread_ranks(4, {}, [&](comm::World& world) {
    QuietReporter reporter;
    train::run_training(config, reporter.stop, reporter, world);
  });
  EXPECT_EQ(checkpoint_bytes(checkpoint::newest(checkpoints("processes"))->path),
            checkpoint_bytes(checkpoint::newest(checkpoints("threads"))->path));
  EXPECT_EQ(metrics_without_times(small_.folder() / "processes"),
            metrics_without_times(small_.folder() / "threads"));
}

TEST_F(Mpirun, EvaluatesAndProves) {
  ASSERT_EQ(run(on(2, training("model", 2))).status, 0);
  const auto loss = [&](int ranks, const std::string& expert) {
    const Finished finished =
        run(on(ranks, {"eval", folder_.write("model.toml", small_.config_text("model")),
                       "--checkpoint", (small_.folder() / "model").string(), "--set",
                       "parallel.expert=" + expert, "--json", "-"}));
    EXPECT_EQ(finished.status, 0) << finished.err;
    return nlohmann::json::parse(finished.out).at("eval/loss").get<double>();
  };
  EXPECT_NEAR(loss(1, "1"), loss(4, "4"), 1e-6);
  const Finished parity =
      run(on(2, {"parity", folder_.write("model.toml", small_.config_text("model")), "--layouts",
                 "expert=2 exchange=all_to_all params=resharded prefetch=true", "--set",
                 "optim.eps=1e-6", "--json", "-"}));
  EXPECT_EQ(parity.status, 0) << parity.err;
  EXPECT_EQ(nlohmann::json::parse(parity.out).at("run"), 1);
}

TEST_F(Mpirun, ASignalToOneRankSavesAndStopsAll) {
  Program program(ULMUS_TEST_MPIEXEC, on(3, training("signal", 1000000)));
  ASSERT_TRUE(program.wait_for("step "));
  const std::vector<pid_t> ranks = children_of(program.pid());
  ASSERT_EQ(ranks.size(), 3U);
  ::kill(ranks[1], SIGTERM);
  const Finished finished = program.finish();
  EXPECT_EQ(finished.status, 128 + SIGTERM) << finished.err;
  const auto newest = checkpoint::newest(checkpoints("signal"));
  ASSERT_TRUE(newest) << finished.err;
  EXPECT_GT(newest->step, 0);
  EXPECT_TRUE(checkpoint::verify(newest->path).is_good());
  for (const char* name : {"rank-0000.txt", "rank-0001.txt", "rank-0002.txt"}) {
    EXPECT_THAT(read_file(small_.folder() / "signal" / "log" / name),
                HasSubstr(concat("stopped at step ", newest->step)));
  }
}

TEST_F(Mpirun, ARefusalIsToldOnce) {
  const Finished finished = run(on(3, training("refused", 2, {"parallel.expert=2"})));
  EXPECT_EQ(finished.status, 2);
  EXPECT_EQ(count(finished.err, "parallel.expert = 2 does not divide"), 1U) << finished.err;
}

TEST_F(Mpirun, RanksWithAnotherConfigurationAreNamed) {
  const std::string one = folder_.write("a.toml", small_.config_text("a"));
  std::vector<std::string> words = {"-n", "1", "--oversubscribe", ULMUS_TEST_PROGRAM, "train", one};
  words.insert(words.end(), {":", "-n", "1", "--oversubscribe", ULMUS_TEST_PROGRAM, "train", one,
                             "--set", "run.seed=4"});
  const Finished finished = run(words);
  EXPECT_EQ(finished.status, 2);
  EXPECT_THAT(finished.err, HasSubstr("rank 1 has another configuration"));
  EXPECT_FALSE(std::filesystem::exists(small_.folder() / "a"));
}

TEST_F(Mpirun, CommandsOfOneProcessRefuseRanks) {
  const Finished finished = run(on(2, {"data", "show", "nothing"}));
  EXPECT_EQ(finished.status, 2);
  EXPECT_THAT(finished.err, HasSubstr("2 ranks were started"));
}

TEST_F(Mpirun, AKilledRankEndsTheRunAndTheCheckpointStays) {
  ASSERT_EQ(run(on(2, training("killed", 2))).status, 0);
  Program program(ULMUS_TEST_MPIEXEC, on(2, training("killed", 1000000)));
  ASSERT_TRUE(program.wait_for("step "));
  const std::vector<pid_t> ranks = children_of(program.pid());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGKILL);
  EXPECT_NE(program.finish().status, 0);
  EXPECT_TRUE(checkpoint::verify(checkpoint::newest(checkpoints("killed"))->path).is_good());
}

/// A rank that stands still: the other one says so and ends both within the timeout.
TEST_F(Mpirun, AFrozenRankIsNamed) {
  Program program(ULMUS_TEST_MPIEXEC, on(2, training("frozen", 1000000, {"run.timeout_s=1.0"})));
  ASSERT_TRUE(program.wait_for("step "));
  const std::vector<pid_t> ranks = children_of(program.pid());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGSTOP);
  const Finished finished = program.finish();
  EXPECT_NE(finished.status, 0);
  EXPECT_THAT(finished.err, HasSubstr("rank 0: "));
  EXPECT_THAT(finished.err,
              ContainsRegex("rank 0 waits for rank 1 in [a-z_ ]+ [0-9]+ of group [a-z]+"));
}

/// Ranks that die while a checkpoint is written behind training leave complete ones only, and the
/// run goes on from the newest.
TEST_F(Mpirun, AKilledRankLosesNoCompleteCheckpoint) {
  const std::vector<std::string> keys = {"checkpoint.every=1", "checkpoint.async=true",
                                         "checkpoint.keep=3"};
  Program program(ULMUS_TEST_MPIEXEC, on(2, training("async", 1000000, keys)));
  while (!checkpoint::newest(checkpoints("async")))
    ASSERT_TRUE(program.wait_for("step "));
  const std::vector<pid_t> ranks = children_of(program.pid());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[0], SIGKILL);
  EXPECT_NE(program.finish().status, 0);
  const auto newest = checkpoint::newest(checkpoints("async"));
  ASSERT_TRUE(newest);
  EXPECT_TRUE(checkpoint::verify(newest->path).is_good());
  const int next = static_cast<int>(newest->step) + 1;
  ASSERT_EQ(run(on(2, training("async", next, keys))).status, 0);
  EXPECT_EQ(checkpoint::newest(checkpoints("async"))->step, next);
}

TEST_F(Mpirun, BenchStepCountsWhatRanksSend) {
  const Finished finished =
      run(on(2, {"bench", "step", std::string(ULMUS_CONFIGS) + "/parity.toml", "--repetitions", "1",
                 "--set", "model.layers=2", "--set", "parallel.expert=2", "--set",
                 "device.threads=1", "--json", "-"}));
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto facts = nlohmann::json::parse(finished.out);
  EXPECT_EQ(facts.at("ranks"), 2);
  const auto& sent = facts.at("sent_bytes");
  EXPECT_EQ(sent.at("expert_replica"), 0) << "every expert is there once";
  EXPECT_GT(sent.at("expert").get<std::int64_t>(), 0);
  // Half of the dense gradients, and half of the dense weights.
  const auto weights = facts.at("memory_bytes").at("parameters").get<std::int64_t>();
  EXPECT_GT(sent.at("dense").get<std::int64_t>(), 0);
  EXPECT_LT(sent.at("dense").get<std::int64_t>(), weights);
}

/// A layout that computes something else: here because updates as large as the weights turn the
/// rounding of 32-bit sums into other gradients.
TEST_F(Mpirun, ADifferenceIsNamedAndTheStatusIsThree) {
  const Finished finished =
      run(on(2, {"parity", std::string(ULMUS_CONFIGS) + "/parity.toml", "--layouts",
                 "expert=2 exchange=all_to_all params=resident", "--set", "model.layers=2", "--set",
                 "optim.lr=10.0", "--set", "optim.eps=1e-30", "--set", "optim.clip=0.0", "--json",
                 folder_.path("report.json")}));
  EXPECT_EQ(finished.status, 3) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("DIFFERS"));
  const auto report = nlohmann::json::parse(read_file(folder_.path("report.json")));
  const auto& rows = report.at("rows");
  EXPECT_EQ(rows.at(0).at("equal"), true) << "64-bit floats do not mind";
  EXPECT_EQ(rows.at(1).at("equal"), false);
  const std::string tensor = rows.at(1).at("first_difference").at("tensor");
  EXPECT_THAT(tensor, HasSubstr("step 2 "));
  EXPECT_THAT(finished.out, HasSubstr(tensor + " differs by "));
}

}  // namespace
}  // namespace ulmus::test
