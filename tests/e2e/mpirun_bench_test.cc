#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/mpirun_environment.h"
#include "tests/train/small_run.h"

namespace ulmus::test {
namespace {

TEST(MpirunBench, CheckpointsAreTimedOnTwoRanks) {
  allow_mpirun();
  const SmallRun small;
  const TestFolder folder;
  const std::string config = folder.write("bench.toml", small.config_text("bench"));
  const auto rows_of = [&](const std::string& ranks) {
    const Finished finished =
        Program(ULMUS_TEST_MPIEXEC,
                {"-n", ranks, "--oversubscribe", ULMUS_TEST_PROGRAM, "bench", "checkpoint", config,
                 "--repetitions", "1", "--set", "device.threads=1", "--json", "-"})
            .finish();
    EXPECT_EQ(finished.status, 0) << finished.err;
    std::map<std::string, nlohmann::json> rows;
    const auto facts = nlohmann::json::parse(finished.out);
    for (const auto& row : facts.at("rows"))
      rows[row.at("operation")] = row;
    return rows;
  };
  const auto one = rows_of("1");
  const auto two = rows_of("2");
  ASSERT_EQ(two.size(), 4U);
  for (const auto& [operation, row] : two) {
    EXPECT_GT(row.at("seconds").get<double>(), 0.0) << operation;
    EXPECT_GT(row.at("copy_seconds").get<double>(), 0.0) << operation;
    // The same checkpoint, but for the layout's name in info.json.
    EXPECT_NEAR(row.at("bytes").get<double>(), one.at("save").at("bytes").get<double>(), 256.0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(small.folder() / "bench"));
}

}  // namespace
}  // namespace ulmus::test
