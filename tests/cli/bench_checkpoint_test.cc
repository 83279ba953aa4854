#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace ulmus::test {
namespace {

using ::testing::HasSubstr;

TEST(BenchCheckpoint, TimesSavesAndLoadsBesideTheirFloorAndLeavesNothing) {
  const TestFolder folder;
  const std::string config = std::string(ULMUS_CONFIGS) + "/parity.toml";
  const Finished run =
      run_program({"bench", "checkpoint", config, "--repetitions", "2", "--set", "model.layers=2",
                   "--set", "run.dir=" + folder.path("runs"), "--json", "-"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto facts = nlohmann::json::parse(run.out);
  EXPECT_EQ(facts.at("bench"), "checkpoint");
  EXPECT_EQ(facts.at("repetitions"), 2);
  EXPECT_GT(facts.at("stall_fraction").get<double>(), 0.0);
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : facts.at("rows"))
    rows[row.at("operation")] = row;
  EXPECT_EQ(rows.size(), 4U);
  for (const std::string operation : {"save", "async_stall", "load", "reshard"}) {
    ASSERT_TRUE(rows.contains(operation)) << run.out;
    const nlohmann::json& row = rows.at(operation);
    EXPECT_EQ(row.at("bytes"), rows.at("save").at("bytes")) << operation;
    EXPECT_GT(row.at("seconds").get<double>(), 0.0) << operation;
    EXPECT_GT(row.at("copy_seconds").get<double>(), 0.0) << operation;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("runs")));

  // Weights and both moments: as many bytes as a run saves, but for the texts of manifest and info.
  const Finished trained =
      run_program({"train", config, "--set", "model.layers=2", "--set", "run.max_steps=0", "--set",
                   "run.dir=" + folder.path("run")});
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::int64_t bytes = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.path("run/checkpoints/step-00000000")))
    bytes += static_cast<std::int64_t>(entry.file_size());
  constexpr std::int64_t kTextBytes = 256;
  EXPECT_NEAR(rows.at("save").at("bytes").get<double>(), static_cast<double>(bytes), kTextBytes);
  EXPECT_GT(bytes, 100 * kTextBytes);
}

TEST(BenchCheckpoint, NeedsAConfiguration) {
  const Finished run = run_program({"bench", "checkpoint"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("CONFIG is missing"));
}

}  // namespace
}  // namespace ulmus::test
