#include "ulmus/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/failing_ranks.h"
#include "tests/support/message_of.h"

namespace ulmus::comm {
namespace {

using test::Ending;
using test::Frozen;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr World::Options kOptions{};

std::unique_ptr<World> world_of_one() {
  return std::make_unique<World>(std::move(make_thread_transports(1)[0]), kOptions);
}

TEST(CommunicatorTest, TheWorldKnowsItsRanks) {
  run_thread_ranks(3, kOptions, [](World& world) {
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.backend(), "thread");
    EXPECT_EQ(world.all().name(), "world");
    EXPECT_EQ(world.all().rank(), world.rank());
    EXPECT_EQ(world.all().world_rank(2), 2);
  });
}

TEST(CommunicatorTest, MembersAreInTheOrderOfTheirList) {
  run_thread_ranks(3, kOptions, [](World& world) {
    const auto group = world.make_group("reversed", {{2, 1}, {0}});
    EXPECT_EQ(group->size(), world.rank() == 0 ? 1 : 2);
    EXPECT_EQ(group->rank(), world.rank() == 1 ? 1 : 0);
    EXPECT_EQ(group->world_rank(0), world.rank() == 0 ? 0 : 2);
  });
}

TEST(CommunicatorTest, ListsThatAreNoPartition) {
  const auto world = world_of_one();
  const auto message = [&](const std::vector<std::vector<int>>& groups) {
    return ulmus::test::message_of<Error>([&] { world->make_group("dense", groups); });
  };
  EXPECT_THAT(message({{0}, {0}}), HasSubstr("group dense has rank 0 2 times"));
  EXPECT_THAT(message({}), HasSubstr("group dense has rank 0 0 times"));
  EXPECT_THAT(message({{0, 1}}), HasSubstr("group dense has rank 1 of a world of 1"));
}

TEST(CommunicatorTest, RanksThatDisagreeAboutAName) {
  const Ending ending =
      test::run_failing(3, std::chrono::minutes(1), [](World& world, Device&, Frozen&) {
        world.make_group(world.rank() == 2 ? "expert" : "dense", {{0, 1, 2}});
      });
  EXPECT_THAT(ending.messages, Each(HasSubstr("rank 0 makes dense, rank 2 makes expert")));
}

TEST(CommunicatorTest, RanksThatDisagreeAboutALongNameOrAList) {
  const std::string long_name(60, 'x');
  for (const bool lists : {true, false}) {
    const Ending ending =
        test::run_failing(3, std::chrono::minutes(1), [&](World& world, Device&, Frozen&) {
          const std::vector<int> pair =
              world.rank() == 1 && lists ? std::vector{1, 0} : std::vector{0, 1};
          world.make_group(long_name + (world.rank() == 1 && !lists ? "y" : "z"), {pair, {2}});
        });
    EXPECT_THAT(ending.messages, Each(HasSubstr("rank 1 makes xxxx")));
  }
}

TEST(CommunicatorTest, AWorldHasAtMost256Groups) {
  const auto world = world_of_one();
  std::vector<std::unique_ptr<Communicator>> groups;
  for (int i = 1; i < 256; ++i) {
    groups.push_back(world->make_group("many", {{0}}));
  }
  EXPECT_THAT(ulmus::test::message_of<Error>([&] { world->make_group("many", {{0}}); }),
              HasSubstr("at most 256 groups"));
}

TEST(CommunicatorTest, WrongArguments) {
  const auto world = world_of_one();
  Communicator& group = world->all();
  std::vector<std::byte> bytes(4);
  const std::span<const std::byte> three = std::span<const std::byte>(bytes).first(3);
  EXPECT_THAT(ulmus::test::message_of<Error>([&] { group.broadcast(bytes, 1); }),
              HasSubstr("root 1 of group world of 1"));
  EXPECT_THAT(ulmus::test::message_of<Error>([&] { group.all_gather_bytes(bytes, three); }),
              HasSubstr("4 bytes for 3 of each of 1 ranks"));
  const std::span<std::byte> all(bytes);
  EXPECT_THAT(
      ulmus::test::message_of<Error>([&] { group.all_gather_bytes(all.first(3), all.last(3)); }),
      HasSubstr("rank 0 gives bytes of another rank's place in group world"));
  group.all_gather_bytes(all, all);
  EXPECT_THAT(ulmus::test::message_of<Error>([&] { static_cast<void>(group.world_rank(-1)); }),
              HasSubstr("member -1 of group world of 1"));
  EXPECT_THAT(ulmus::test::message_of<Error>([] {
                World(std::move(make_thread_transports(1)[0]),
                      {.timeout = std::chrono::milliseconds(0)});
              }),
              HasSubstr("a timeout of 0 ms"));
  EXPECT_THAT(ulmus::test::message_of<Error>(
                  [] { World(std::move(make_thread_transports(1)[0]), {.message_bytes = 0}); }),
              HasSubstr("messages of 0 bytes"));
}

TEST(CommunicatorTest, TrafficIsWhatLeavesTheRank) {
  run_thread_ranks(3, kOptions, [](World& world) {
    const auto group = world.make_group("dense", {{0, 1, 2}});
    EXPECT_EQ(group->traffic().operations, 0) << "what making it took is not counted";
    EXPECT_EQ(world.all().traffic().operations, 1) << "the ranks agreed about the group";
    std::array<double, 10> values{};
    group->all_reduce(std::span(values), ReduceOp::kSum);
    EXPECT_EQ(group->traffic().operations, 1);
    EXPECT_EQ(group->traffic().sent_bytes, 2 * 80);
    group->broadcast(std::as_writable_bytes(std::span(values)), 1);
    EXPECT_EQ(group->traffic().operations, 2);
    EXPECT_EQ(group->traffic().sent_bytes, 2 * 80 + (world.rank() == 1 ? 2 * 80 : 0));
    group->barrier();
    EXPECT_EQ(group->traffic().operations, 3);
    group->reset_traffic();
    EXPECT_EQ(group->traffic().operations, 0);
    EXPECT_EQ(group->traffic().sent_bytes, 0);
  });
}

}  // namespace
}  // namespace ulmus::comm
