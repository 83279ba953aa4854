#include "ulmus/comm/node.h"

#include <gtest/gtest.h>

#include "ulmus/comm/meta/meta_transport.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm {
namespace {

/// Cores [begin, end).
CoreMask cores(int begin, int end) {
  CoreMask mask(static_cast<std::size_t>(end + 63) / 64);
  for (int core = begin; core < end; ++core) {
    mask[static_cast<std::size_t>(core / 64)] |= std::uint64_t{1}
                                                 << static_cast<unsigned>(core % 64);
  }
  return mask;
}

TEST(NodeTest, RanksShareTheCoresOfTheirMachine) {
  std::vector<Place> places;
  places.reserve(5);
  for (int rank = 0; rank < 5; ++rank) {
    places.push_back({.leader = rank < 3 ? 0 : 3, .cores = cores(0, 16), .online = 16});
  }
  for (int rank = 0; rank < 5; ++rank) {
    const Node node = node_of(places, rank);
    EXPECT_EQ(node.ranks, rank < 3 ? 3 : 2);
    EXPECT_EQ(node.cores, 16);
    EXPECT_EQ(node.online_cores, 16);
    EXPECT_EQ(node.threads_of_rank, rank < 3 ? 5 : 8);
  }
}

TEST(NodeTest, RanksThatAreBoundToOneCoreEach) {
  const std::vector<Place> places = {{.leader = 0, .cores = cores(0, 1), .online = 64},
                                     {.leader = 0, .cores = cores(1, 2), .online = 64}};
  const Node node = node_of(places, 1);
  EXPECT_EQ(node.ranks, 2);
  EXPECT_EQ(node.cores, 2);
  EXPECT_EQ(node.online_cores, 64);
  EXPECT_EQ(node.threads_of_rank, 1);
}

TEST(NodeTest, ARankTakesNoMoreThanItsOwnMask) {
  const std::vector<Place> places = {{.leader = 0, .cores = cores(0, 2), .online = 32},
                                     {.leader = 0, .cores = cores(2, 32), .online = 32}};
  EXPECT_EQ(node_of(places, 0).threads_of_rank, 2);
  EXPECT_EQ(node_of(places, 1).threads_of_rank, 16);
}

TEST(NodeTest, MoreRanksThanCores) {
  const std::vector<Place> places(6, {.leader = 0, .cores = cores(0, 4), .online = 4});
  EXPECT_EQ(node_of(places, 5).threads_of_rank, 1);
}

TEST(NodeTest, MasksOfDifferentLengthBeyond1024Cores) {
  const std::vector<Place> places = {{.leader = 0, .cores = cores(0, 1000), .online = 2000},
                                     {.leader = 0, .cores = cores(1000, 2000), .online = 2000}};
  const Node node = node_of(places, 0);
  EXPECT_EQ(node.cores, 2000);
  EXPECT_EQ(node.threads_of_rank, 1000);
}

TEST(NodeTest, AMachineWithoutAnyCoreHasOne) {
  const std::vector<Place> places(2, {.leader = 0, .cores = {}, .online = 0});
  const Node node = node_of(places, 0);
  EXPECT_EQ(node.cores, 1);
  EXPECT_EQ(node.online_cores, 1);
  EXPECT_EQ(node.threads_of_rank, 1);
}

TEST(NodeTest, ThreadsShareTheMachineAndTheirMask) {
  const int own = available_threads();
  run_thread_ranks(3, World::Options{}, [&](World& world) {
    const Node node = find_node(world);
    EXPECT_EQ(node.ranks, 3);
    EXPECT_EQ(node.cores, own);
    EXPECT_GE(node.online_cores, own);
    EXPECT_EQ(node.threads_of_rank, std::max(1, own / 3));
  });
  EXPECT_EQ(available_threads(), own) << "looking changes nothing";
}

TEST(NodeTest, AMetaRankIsAlone) {
  World world(std::make_unique<MetaTransport>(3, 1000), World::Options{});
  const Node node = find_node(world);
  EXPECT_EQ(node.ranks, 1);
  EXPECT_EQ(node.threads_of_rank, available_threads());
}

}  // namespace
}  // namespace ulmus::comm
