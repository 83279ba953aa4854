#include "ulmus/parallel/all_to_all_exchange.h"

#include <gtest/gtest.h>

#include "tests/parallel/token_exchange_conformance.h"
#include "ulmus/comm/tag.h"
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

/// The other rank does not come: its counts are not sent from an exchange that is gone.
TEST(AllToAllExchangeTest, WhenItFailsNothingIsUnderWay) {
  std::vector<std::unique_ptr<comm::Transport>> transports = comm::make_thread_transports(2);
  comm::World world(std::move(transports[0]), {.timeout = std::chrono::milliseconds(20)});
  const std::uint32_t tag = comm::Tag{.number = 1, .kind = comm::OperationKind::kAllToAll}.packed();
  std::vector<std::int32_t> counts = {-1, -1};  // of two experts
  const auto bytes = std::as_writable_bytes(std::span(counts));
  {
    test::DeviceFixture f;
    AllToAllExchange exchange(world.all(), *f.device);
    nn::ExchangePlan plan = exchange.allocate_plan(f.arena, 8, 4, 1);
    EXPECT_THROW(exchange.plan(plan, f.i32({2, 1}, {0, 3}), 2, f.ctx), comm::CommError);
    const comm::RequestId request = transports[1]->start_receive(0, tag, bytes);
    EXPECT_FALSE(transports[1]->test(request));
    transports[1]->abandon(request);
  }
  EXPECT_FALSE(transports[1]->test(transports[1]->start_receive(0, tag, bytes)));
  EXPECT_EQ(counts, (std::vector<std::int32_t>{-1, -1}));
}

}  // namespace
}  // namespace ulmus::parallel
