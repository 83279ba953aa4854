#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

#include "tests/cli/program.h"
#include "tests/train/small_run.h"
#include "ulmus/base/philox.h"
#include "ulmus/checkpoint/checkpoint.h"

namespace ulmus::test {
namespace {

/// A run that saves after every step, so that most of its time is inside a save, killed ten times
/// at random moments: what comes out at the end is what an unbroken run gives, bit for bit.
class KillWhileSaving : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, KillWhileSaving, testing::Values("false", "true"),
                         [](const auto& way) { return way.param == "true" ? "Behind" : "AtOnce"; });

TEST_P(KillWhileSaving, TenTimesAndTheWeightsAreThoseOfTheUnbrokenRun) {
  const SmallRun small;
  TestFolder folder;
  const auto arguments = [&](const std::string& name) {
    return std::vector<std::string>{"train", folder.write(name + ".toml", small.config_text(name)),
                                    "--set", "run.max_steps=150",
                                    "--set", "checkpoint.every=1",
                                    "--set", "checkpoint.async=" + GetParam()};
  };
  ASSERT_EQ(run_program(arguments("whole")).status, 0);
  const PhiloxKey key = philox_key(1, RandomPurpose::kTest, "kill");
  int killed = 0;
  for (std::uint32_t attempt = 0; killed < 10; ++attempt) {
    ASSERT_LT(attempt, 40U) << "the run ends before it can be killed ten times";
    Program program(arguments("broken"));
    // From the first steps on, up to a tenth of the run later.
    ASSERT_TRUE(program.wait_for("memory by class"));
    const auto moment_ms = static_cast<int>(philox(key, {attempt, 0, 0, 0})[0] % 250);
    ::poll(nullptr, 0, moment_ms);
    program.send(SIGKILL);
    if (program.finish().status == 128 + SIGKILL) ++killed;
  }
  const Finished last = run_program(arguments("broken"));
  ASSERT_EQ(last.status, 0) << last.err;
  const auto whole = checkpoint::newest(small.folder() / "whole" / "checkpoints");
  const auto broken = checkpoint::newest(small.folder() / "broken" / "checkpoints");
  ASSERT_TRUE(whole && broken);
  EXPECT_EQ(whole->step, 150);
  EXPECT_EQ(checkpoint_bytes(whole->path), checkpoint_bytes(broken->path));
  EXPECT_EQ(metrics_without_times(small.folder() / "whole"),
            metrics_without_times(small.folder() / "broken"));
}

TEST(Kill, SignalsSaveAndStopWithTheirStatus) {
  const SmallRun small;
  TestFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string name = signal == SIGINT ? "interrupted" : "terminated";
    Program program({"train", folder.write(name + ".toml", small.config_text(name)), "--set",
                     "run.max_steps=1000000"});
    ASSERT_TRUE(program.wait_for("step "));
    program.send(signal);
    EXPECT_EQ(program.finish().status, 128 + signal);
    const auto newest = checkpoint::newest(small.folder() / name / "checkpoints");
    ASSERT_TRUE(newest);
    EXPECT_GT(newest->step, 0);
    EXPECT_TRUE(checkpoint::verify(newest->path).is_good());
  }
}

}  // namespace
}  // namespace ulmus::test
