#include "ulmus/optim/param_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "ulmus/base/error.h"

namespace ulmus::optim {
namespace {

using ::testing::HasSubstr;

TEST(Glob, StarsStandForAnything) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*", "anything"));
  EXPECT_TRUE(glob_matches("a.b", "a.b"));
  EXPECT_TRUE(glob_matches("layers.*.router.weight", "layers.12.moe.router.weight"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
  EXPECT_TRUE(glob_matches("a*a", "aa"));
  EXPECT_TRUE(glob_matches("*ab", "aab"));
  EXPECT_TRUE(glob_matches("**", "x"));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("a", ""));
  EXPECT_FALSE(glob_matches("a*a", "a"));
  EXPECT_FALSE(glob_matches("a.b", "axb")) << "a point is a point";
  EXPECT_FALSE(glob_matches("layers.1.*", "layers.12.x"));
  EXPECT_FALSE(glob_matches("*.router", "moe.router.weight")) << "the whole name";
  // Backtracking is linear in the pattern's stars, not exponential.
  EXPECT_FALSE(glob_matches("*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

const std::vector<std::string> kNames = {
    "embedding.weight",
    "layers.0.attention_input_norm.weight",
    "layers.0.attention.q.weight",
    "layers.0.moe.router.weight",
    "layers.1.moe.router.weight",
    "final_norm.weight",
    "head.weight",
};

TEST(Groups, NormsAndEmbeddingsDoNotDecayByDefault) {
  const auto groups = assign_groups(kNames, {}, 0.1);
  const std::vector<double> decay = {0, 0, 0.1, 0.1, 0.1, 0, 0.1};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_EQ(groups[i].weight_decay, decay[i]) << kNames[i];
    EXPECT_EQ(groups[i].lr_scale, 1.0);
  }
}

TEST(Groups, TheFirstRuleThatMatchesCounts) {
  const std::vector<GroupRule> rules = {
      {"layers.0.*.router.*", 0.5, 0.0}, {"*.router.*", 0.25, std::nullopt}, {"*norm*", 1.0, 0.01}};
  const auto groups = assign_groups(kNames, rules, 0.1);
  EXPECT_EQ(groups[3], (ParameterGroup{0.5, 0.0}));
  EXPECT_EQ(groups[4], (ParameterGroup{0.25, 0.1})) << "a rule without decay leaves the default";
  EXPECT_EQ(groups[5], (ParameterGroup{1.0, 0.01})) << "a rule may make norms decay";
  EXPECT_EQ(groups[0], (ParameterGroup{1.0, 0.0}));
}

TEST(Groups, ARuleWithoutAParameterIsAnError) {
  const auto refusal = [](std::vector<GroupRule> rules) {
    return test::error_of([&] { assign_groups(kNames, rules, 0.1); });
  };
  EXPECT_THAT(refusal({{.match = "*.router"}}),
              HasSubstr("optim.groups: \"*.router\" matches no parameter"));
  EXPECT_THAT(refusal({{.match = "*.router.*"}, {.match = "layers.0.moe.router.weight"}}),
              HasSubstr("\"layers.0.moe.router.weight\""))
      << "an earlier rule took all it could match";
}

TEST(Groups, SummaryCountsTensorsAndElements) {
  const auto groups = assign_groups(kNames, std::vector<GroupRule>{{"*.router.*", 0.5, 0.1}}, 0.1);
  const std::vector<std::int64_t> elements = {1, 2, 4, 8, 16, 32, 64};
  const auto lines = summarize(kNames, elements, groups);
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0].group, (ParameterGroup{1.0, 0.0}));
  EXPECT_EQ(lines[0].tensors, 3);
  EXPECT_EQ(lines[0].elements, 1 + 2 + 32);
  EXPECT_EQ(lines[0].example, "embedding.weight");
  EXPECT_EQ(lines[1].elements, 4 + 64);
  EXPECT_EQ(lines[2].group, (ParameterGroup{0.5, 0.1}));
  EXPECT_EQ(lines[2].elements, 8 + 16);
}

}  // namespace
}  // namespace ulmus::optim
