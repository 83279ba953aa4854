#include "ulmus/parallel/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "ulmus/base/error.h"

namespace ulmus::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Mesh, EightRanksInTwoStages) {
  const Layout layout = {.ranks = 8, .pipeline = 2, .expert = 2};
  layout.validate();
  EXPECT_EQ(layout.expert_replicas(), 2);
  EXPECT_THAT(expert_groups(layout), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                                                 ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(expert_replica_groups(layout), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3),
                                                         ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(pipeline_groups(layout), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5),
                                                   ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(dense_groups(layout), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

TEST(Mesh, FiveHundredAndTwelveRanksInFourStages) {
  const Layout layout = {.ranks = 512, .pipeline = 4, .expert = 8};
  EXPECT_EQ(layout.stage_ranks(), 128);
  EXPECT_THAT(expert_groups(layout).front(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const std::vector<int> replicas = expert_replica_groups(layout).front();
  ASSERT_EQ(replicas.size(), 16U);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(replicas[static_cast<std::size_t>(i)], 8 * i);
  EXPECT_THAT(pipeline_groups(layout).front(), ElementsAre(0, 128, 256, 384));
}

TEST(Mesh, ContextFoldsIntoExperts) {
  const Layout all = {.ranks = 4, .context = 2, .expert = 4};
  EXPECT_EQ(all.data(), 2);
  EXPECT_EQ(all.expert_replicas(), 1);
  EXPECT_THAT(expert_groups(all), ElementsAre(ElementsAre(0, 1, 2, 3)));
  const Layout pairs = {.ranks = 4, .context = 2, .expert = 2};
  EXPECT_EQ(pairs.expert_replicas(), 2);
  EXPECT_THAT(expert_groups(pairs), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(Mesh, BothViewsNumberTheSameRanks) {
  const Layout layout = {.ranks = 48, .pipeline = 2, .context = 3, .expert = 4};
  layout.validate();
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const Coordinates at = coordinates_of(rank, layout);
    EXPECT_EQ((at.stage * layout.data() + at.data) * layout.context + at.context, rank);
    EXPECT_EQ((at.stage * layout.expert_replicas() + at.replica) * layout.expert + at.expert, rank);
  }
}

TEST(Mesh, EveryRankIsInOneGroupOfAKind) {
  const Layout layout = {.ranks = 24, .pipeline = 2, .context = 2, .expert = 3};
  for (const auto& groups : {dense_groups(layout), expert_groups(layout),
                             expert_replica_groups(layout), pipeline_groups(layout)}) {
    std::vector<int> seen(24, 0);
    for (const auto& group : groups)
      for (const int rank : group)
        ++seen[static_cast<std::size_t>(rank)];
    EXPECT_EQ(seen, std::vector<int>(24, 1));
  }
}

TEST(Mesh, NumbersThatDoNotMultiplyUpAreRefused) {
  EXPECT_THAT(test::message_of([] { Layout{.ranks = 4, .expert = 3}.validate(); }),
              HasSubstr("parallel.expert = 3 does not divide the 4 ranks"));
  EXPECT_THAT(test::message_of([] { Layout{.ranks = 4, .pipeline = 3}.validate(); }),
              HasSubstr("parallel.pipeline = 3"));
}

}  // namespace
}  // namespace ulmus::parallel
