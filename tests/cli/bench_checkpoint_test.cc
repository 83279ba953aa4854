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
  const Finished run = run_program(
      {"bench", "checkpoint", std::string(ULMUS_CONFIGS) + "/parity.toml", "--repetitions", "2",
       "--set", "model.layers=2", "--set", "run.dir=" + folder.path("runs"), "--json", "-"});
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
    EXPECT_GT(row.at("bytes").get<std::int64_t>(), 0) << operation;
    EXPECT_GT(row.at("seconds").get<double>(), 0.0) << operation;
    EXPECT_GT(row.at("copy_seconds").get<double>(), 0.0) << operation;
    EXPECT_LE(row.at("ratio_min"), row.at("ratio")) << operation;
    EXPECT_LE(row.at("ratio"), row.at("ratio_max")) << operation;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("runs")));
}

TEST(BenchCheckpoint, NeedsAConfiguration) {
  const Finished run = run_program({"bench", "checkpoint"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("CONFIG is missing"));
}

}  // namespace
}  // namespace ulmus::test
