#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/mpirun_environment.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/parity.h"

namespace ulmus::test {
namespace {

constexpr int kRanks = 4;
const char* const kRecipe = ULMUS_CONFIGS "/parity.toml";

/// `ulmus parity` with the recipe itself, all layouts of four ranks, as a user starts it.
class ParityProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() { allow_mpirun(); }

  /// One thread for each rank wherever it runs: the sums of f32 kernels depend on that number.
  static std::vector<std::string> words(const std::vector<std::string>& more) {
    std::vector<std::string> all = {"parity", kRecipe, "--set", "device.threads=1", "--json", "-"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static nlohmann::json proven(const Finished& finished) {
    EXPECT_EQ(finished.status, 0) << finished.err;
    nlohmann::json report = nlohmann::json::parse(finished.out);
    const auto layouts = train::parity_layouts(train::load_config(kRecipe, {}), kRanks);
    const auto legal =
        std::ranges::count_if(layouts, [](const auto& layout) { return !layout.refusal; });
    EXPECT_GT(legal, 0);
    EXPECT_EQ(report.at("ranks"), kRanks);
    EXPECT_EQ(report.at("legal"), legal);
    EXPECT_EQ(report.at("run"), legal);
    EXPECT_EQ(report.at("refused"), std::ssize(layouts) - legal);
    EXPECT_EQ(std::ssize(report.at("rows")), 2 * legal) << "fp64 and fp32";
    return report;
  }
  static nlohmann::json of_processes() {
    std::vector<std::string> all = words({"--layouts", "all"});
    all.insert(all.begin(), {"-n", std::to_string(kRanks), "--oversubscribe", ULMUS_TEST_PROGRAM});
    return proven(Program(ULMUS_TEST_MPIEXEC, all).finish());
  }
  static nlohmann::json of_threads() {
    return proven(run_program(words({"--ranks", std::to_string(kRanks)})));
  }
};

/// Every number of the report, too: ranks add up in one order, whatever carries their messages.
TEST_F(ParityProgram, AllLayoutsAreEqualBetweenProcessesAndBetweenThreads) {
  EXPECT_EQ(of_processes(), of_threads());
}

}  // namespace
}  // namespace ulmus::test
