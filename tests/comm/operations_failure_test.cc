// When an operation throws, none of its messages is left on the caller's memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/failing_ranks.h"
#include "ulmus/comm/tag.h"

namespace ulmus::comm {
namespace {

/// One rank with a world; the other one is a bare transport, which sees what is sent to it.
class GivenUpTest : public testing::TestWithParam<std::size_t> {
 protected:
  GivenUpTest() : world_(std::move(transports_[0]), {.timeout = std::chrono::milliseconds(20)}) {}

  static std::uint32_t tag_of(OperationKind kind) {
    return Tag{.number = 1, .kind = kind}.packed();
  }

  /// Whether rank 0 still has a message for rank 1, of any length that an operation here sends.
  bool has_message(std::uint32_t tag) {
    for (const std::size_t num_bytes : {0U, 8U, 96U, 192U}) {
      std::vector<std::byte> received(num_bytes);
      const RequestId request = other_.start_receive(0, tag, received);
      try {
        if (other_.test(request)) return true;
      } catch (const Error&) {
        return true;  // one of another length
      }
      other_.abandon(request);
    }
    return false;
  }

  std::vector<std::unique_ptr<Transport>> transports_ = make_thread_transports(2);
  Transport& other_ = *transports_[1];
  World world_;
  std::unique_ptr<Device> device_ = make_cpu_device(1, Backend::kCpu);
};

OperationKind kind_of(std::size_t operation) {
  constexpr std::array kKinds = {
      OperationKind::kBarrier,        OperationKind::kBroadcast,
      OperationKind::kAllGatherBytes, OperationKind::kAllReduceValues,
      OperationKind::kReduceScatter,  OperationKind::kAllGather,
      OperationKind::kAllReduce,      OperationKind::kAllToAll,
  };
  return kKinds.at(operation);
}

TEST_P(GivenUpTest, WhenTheOtherRankDoesNotCome) {
  EXPECT_THROW(test::all_operations()[GetParam()].run(world_.all(), *device_), CommError);
  EXPECT_FALSE(has_message(tag_of(kind_of(GetParam()))));
}

/// The error is found by the first look, in start().
TEST_P(GivenUpTest, WhenTheOtherRankIsInAnotherOperation) {
  const OperationKind kind = kind_of(GetParam());
  const OperationKind other_kind =
      kind == OperationKind::kBarrier ? OperationKind::kAllToAll : OperationKind::kBarrier;
  const RequestId sent = other_.start_send(0, tag_of(other_kind), {});
  EXPECT_THROW(test::all_operations()[GetParam()].run(world_.all(), *device_), Error);
  EXPECT_FALSE(has_message(tag_of(kind)));
  other_.abandon(sent);
}

INSTANTIATE_TEST_SUITE_P(All, GivenUpTest,
                         testing::Range(std::size_t{0}, test::all_operations().size()));

/// Of host calls nothing is left although the communicator, and what they run on, stays.
TEST_F(GivenUpTest, TheCallersMemoryIsFree) {
  {
    const std::vector<double> mine(12, 1.0);
    std::vector<double> all(24);
    EXPECT_THROW(world_.all().all_gather_bytes(std::as_writable_bytes(std::span(all)),
                                               std::as_bytes(std::span(mine))),
                 CommError);
  }
  std::vector<std::byte> received(96, std::byte{7});
  const std::vector<std::byte> untouched = received;
  const std::uint32_t tag = tag_of(OperationKind::kAllGatherBytes);
  const RequestId receive = other_.start_receive(0, tag, received);
  EXPECT_FALSE(other_.test(receive)) << "the send was given up";
  EXPECT_EQ(received, untouched);
  const RequestId send = other_.start_send(0, tag, untouched);
  EXPECT_THROW(world_.progress(), CommError);
  EXPECT_THROW(world_.all().barrier(), CommError);
  EXPECT_FALSE(other_.test(send)) << "the receive was given up";
}

TEST_F(GivenUpTest, WhatARootSends) {
  std::array<double, 1> value = {1.0};
  EXPECT_THROW(world_.all().broadcast(std::as_writable_bytes(std::span(value)), 0), CommError);
  EXPECT_FALSE(has_message(tag_of(OperationKind::kBroadcast)));
}

}  // namespace
}  // namespace ulmus::comm
