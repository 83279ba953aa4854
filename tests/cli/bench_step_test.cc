#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace ulmus::test {
namespace {

using ::testing::HasSubstr;

TEST(BenchStep, TimesAStepAgainstTheCeiling) {
  const Finished run =
      run_program({"bench", "step", std::string(ULMUS_CONFIGS) + "/parity.toml", "--repetitions",
                   "2", "--set", "model.layers=2", "--json", "-"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto facts = nlohmann::json::parse(run.out);
  EXPECT_EQ(facts.at("bench"), "step");
  EXPECT_EQ(facts.at("repetitions"), 2);
  EXPECT_EQ(facts.at("tokens_per_step"), 224);
  EXPECT_GT(facts.at("tokens_per_s").get<double>(), 0.0);
  EXPECT_GE(facts.at("max_over_mean").get<double>(), 1.0);
  const auto& memory = facts.at("memory_bytes");
  EXPECT_GT(memory.at("parameters").get<std::int64_t>(), 0);
  EXPECT_GE(memory.at("optimizer").get<std::int64_t>(),
            2 * memory.at("parameters").get<std::int64_t>());
  EXPECT_EQ(facts.at("sent_bytes"),
            (nlohmann::json{{"dense", 0}, {"expert", 0}, {"expert_replica", 0}}));
  const double fraction = facts.at("fraction").get<double>();
  EXPECT_GT(fraction, 0.0);
  EXPECT_LT(fraction, 1.0);
}

TEST(BenchStep, NeedsAConfiguration) {
  const Finished run = run_program({"bench", "step"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("CONFIG is missing"));
  EXPECT_EQ(run_program({"bench", "step", "nowhere.toml"}).status, 2);
}

}  // namespace
}  // namespace ulmus::test
