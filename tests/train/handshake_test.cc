#include "ulmus/train/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/message_of.h"
#include "ulmus/base/error.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/train/config_file.h"

namespace ulmus::train {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;

/// What each rank is told when ranks give these hands.
std::array<std::string, kRanks> refusals(const std::array<Hand, kRanks>& hands) {
  std::array<std::string, kRanks> refusals;
  comm::run_thread_ranks(kRanks, {}, [&](comm::World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    refusals[rank] =
        test::message_of<Error>([&] { shake_hands(world, [&] { return hands[rank]; }); });
  });
  return refusals;
}

TEST(Handshake, WhatDiffersIsNamedOnEveryRank) {
  const Hand common = {.program = 1, .config = 2, .format = 3};
  const auto with = [&](const Hand& other) { return refusals({common, common, other}); };
  for (const std::string& message : with(common))
    EXPECT_EQ(message, "");
  for (const std::string& message : with({.program = 9, .config = 2, .format = 3}))
    EXPECT_THAT(message, HasSubstr("rank 2 has another program"));
  for (const std::string& message : with({.program = 1, .config = 9, .format = 3}))
    EXPECT_THAT(message, HasSubstr("rank 2 has another configuration"));
  for (const std::string& message : with({.program = 1, .config = 2, .format = 9}))
    EXPECT_THAT(message, HasSubstr("rank 2 has another checkpoint format (9) than rank 0 (3)"));
}

TEST(Handshake, AHandIsOfTheProgramAndTheConfiguration) {
  const auto hand = [](const std::vector<std::string>& overrides) {
    return own_hand(load_config(std::string(ULMUS_CONFIGS) + "/parity.toml", overrides));
  };
  const Hand one = hand({});
  EXPECT_NE(one.program, 0U);
  EXPECT_GT(one.format, 0);
  EXPECT_EQ(one.config, hand({"device.threads=3"}).config) << "machines may differ in cores";
  EXPECT_NE(one.config, hand({"run.seed=3"}).config);
  EXPECT_EQ(one.program, hand({"run.seed=3"}).program);
}

}  // namespace
}  // namespace ulmus::train
