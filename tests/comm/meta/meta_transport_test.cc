#include "ulmus/comm/meta/meta_transport.h"

#include <gtest/gtest.h>

#include "ulmus/comm/operations.h"
#include "ulmus/device/arena.h"

namespace ulmus::comm {
namespace {

/// A rank of a large world on a device without memory: whatever looked at a tensor would crash.
class MetaTransportTest : public testing::Test {
 protected:
  static constexpr int kRank = 5;
  static constexpr int kSize = 1000;

  MetaTransportTest() {
    auto transport = std::make_unique<MetaTransport>(kRank, kSize);
    transport_ = transport.get();
    world_ = std::make_unique<World>(std::move(transport), World::Options{});
    for (int rank = 0; rank < kSize / 4; ++rank) {
      lists_.push_back({4 * rank, 4 * rank + 1, 4 * rank + 2, 4 * rank + 3});
    }
    group_ = world_->make_group("expert", lists_);
    transport_->reset_counts();
  }

  MetaTransport* transport_ = nullptr;
  std::unique_ptr<World> world_;
  std::vector<std::vector<int>> lists_;
  std::unique_ptr<Communicator> group_;
  std::unique_ptr<Device> device_ = make_meta_device(2);
  Arena arena_{*device_, MemoryClass::kExchange, Arena::kUnbounded};
};

TEST_F(MetaTransportTest, OperationsCountAndTouchNothing) {
  const std::int64_t quarter = std::int64_t{1} << 20U;
  const TensorView buffer = arena_.allocate("buffer", DType::kF32, {4 * quarter});
  const PieceBounds begin{0, quarter, 2 * quarter, 3 * quarter, 4 * quarter};
  const TensorView staging =
      arena_.allocate("staging", DType::kU8, {ReduceScatter::staging_bytes(begin, DType::kF32)});
  ReduceScatter scatter(*group_, buffer, begin, staging, *device_);
  scatter.start();
  scatter.wait();
  EXPECT_EQ(group_->traffic().sent_bytes, 3 * 4 * quarter);
  EXPECT_EQ(transport_->sent()[4].bytes, 4 * quarter);
  EXPECT_EQ(transport_->received()[7].bytes, 4 * quarter);
  EXPECT_EQ(transport_->sent()[8].messages, 0) << "of another group";
  EXPECT_EQ(transport_->sent()[kRank].messages, 0);

  transport_->reset_counts();
  AllGather gather(*group_, buffer, begin, *device_);
  gather.start();
  gather.wait();
  EXPECT_EQ(transport_->sent()[6].bytes, 4 * quarter);
  EXPECT_EQ(transport_->sent()[6].messages, 1);

  const std::vector<AllReduce::Part> parts{{.values = buffer}};
  const TensorView packed =
      arena_.allocate("packed", DType::kU8, {AllReduce::staging_bytes(parts, group_->size())});
  AllReduce reduce(*group_, parts, packed, *device_);
  reduce.start();
  reduce.wait();

  const TensorView in = buffer.reshape({4 * quarter / 64, 64});
  const TensorView out = arena_.allocate("out", DType::kF32, in.shape());
  const PieceBounds rows{0, 1, 1, 4, 5};
  transport_->reset_counts();
  AllToAll exchange(*group_, *device_);
  exchange.start(out, PieceBounds{0, 2, 2, 4, 6}, in, rows);
  exchange.wait();
  EXPECT_EQ(transport_->sent()[4].bytes, 256);
  EXPECT_EQ(transport_->sent()[6].bytes, 3 * 256);
  EXPECT_EQ(transport_->received()[7].bytes, 2 * 256);
}

TEST_F(MetaTransportTest, HostCallsAsIfAllRanksWereAlike) {
  std::vector<std::int64_t> values{3, -1};
  group_->all_reduce(std::span(values), ReduceOp::kSum);
  EXPECT_EQ(values, (std::vector<std::int64_t>{3, -1}));
  std::vector<std::int64_t> all(8);
  group_->all_gather_bytes(std::as_writable_bytes(std::span(all)),
                           std::as_bytes(std::span(values)));
  EXPECT_EQ(all, (std::vector<std::int64_t>{3, -1, 3, -1, 3, -1, 3, -1}));
  group_->broadcast(std::as_writable_bytes(std::span(values)), 0);
  EXPECT_EQ(values, (std::vector<std::int64_t>{3, -1}));
  group_->barrier();
  world_->progress();
}

}  // namespace
}  // namespace ulmus::comm
