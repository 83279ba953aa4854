#include "ulmus/parallel/all_to_all_exchange.h"

#include <gtest/gtest.h>

#include "tests/parallel/token_exchange_conformance.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::parallel {
namespace {

std::unique_ptr<nn::TokenExchange> make(comm::Communicator& experts, Device& device) {
  return std::make_unique<AllToAllExchange>(experts, device);
}

class AllToAllExchangeTest : public testing::TestWithParam<int> {};

TEST_P(AllToAllExchangeTest, DoesWhatEveryExchangeDoes) {
  comm::run_thread_ranks(GetParam(), {},
                         [](comm::World& world) { test::check_token_exchange(world, make); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllToAllExchangeTest, testing::Values(1, 2, 3, 4, 8));

TEST(AllToAllExchangeTest, TheCapacityHoldsTheWorstRouting) {
  comm::run_thread_ranks(4, {}, [](comm::World& world) {
    test::DeviceFixture f;
    const AllToAllExchange exchange(world.all(), *f.device);
    EXPECT_EQ(exchange.row_capacity(10, 16, 3), 4 * 10 * 3);
    // Two experts here: no token has more than two routes to this rank.
    EXPECT_EQ(exchange.row_capacity(10, 8, 3), 4 * 10 * 2);
  });
}

}  // namespace
}  // namespace ulmus::parallel
