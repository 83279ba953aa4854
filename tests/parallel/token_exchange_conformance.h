#pragma once

#include <functional>
#include <memory>

#include "tests/support/device_fixture.h"
#include "ulmus/comm/communicator.h"
#include "ulmus/nn/moe/token_exchange.h"

namespace ulmus::test {

/// Makes the exchange under test on one rank; `experts` is the group that shares the experts.
using MakeExchange =
    std::function<std::unique_ptr<nn::TokenExchange>(comm::Communicator& experts, Device& device)>;

/// A way of routing: the expert of route (rank, token, k), -1 for padding.
struct Routes {
  const char* name;
  int num_experts = 8;
  int top_k = 2;
  std::function<std::int64_t(int rank)> num_tokens;
  std::function<std::int32_t(int rank, std::int64_t token, int k)> expert;
};

/// Even, skewed, degenerate and empty ways, for `ranks` ranks.
std::vector<Routes> ways_of_routing(int ranks);

/// What every token exchange must do, on every rank of `world` and every way of routing:
///   rows arrive under the right expert, in the order (source, token, k), and come back exact;
///   <dispatch(x), g> = <x, combine(g)> over all ranks, with small integers, so exactly;
///   numbers for routes arrive with their rows and come back;
///   sent = received, and every route has a row.
void check_token_exchange(comm::World& world, const MakeExchange& make);

}  // namespace ulmus::test
