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

TEST(BenchCeiling, RefusesAConfiguration) {
  const Finished run = run_program({"bench", "ceiling", "--set", "moe.top_k=2"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("neither CONFIG nor --set"));
}

/// The table says what would be needed, and nothing is taken.
TEST(BenchStep, RefusesWhatDoesNotFit) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"bench", "step"}, {"parity"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {std::string(ULMUS_CONFIGS) + "/parity.toml", "--set",
                               "memory.budget_gib=0.0001"});
    const Finished run = run_program(words);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("memory.budget_gib allows"));
  }
}

}  // namespace
}  // namespace ulmus::test
