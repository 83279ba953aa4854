#include "ulmus/parallel/local_exchange.h"

#include <gtest/gtest.h>

#include "tests/parallel/token_exchange_conformance.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::parallel {
namespace {

TEST(LocalExchangeTest, DoesWhatEveryExchangeDoes) {
  comm::run_thread_ranks(1, {}, [](comm::World& world) {
    test::check_token_exchange(
        world, [](comm::Communicator&, Device&) { return std::make_unique<LocalExchange>(); });
  });
}

}  // namespace
}  // namespace ulmus::parallel
