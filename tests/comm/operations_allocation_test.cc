#include <gtest/gtest.h>

#include "tests/comm/rank_values.h"
#include "tests/support/allocation_counter.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm {
namespace {

constexpr std::int64_t kElements = 3001;

/// One of each kind, with their memory.
class AllOperations {
 public:
  AllOperations(Communicator& group, Device& device)
      : group_(group),
        begin_{0, kElements / 3, kElements / 2, kElements},
        buffer_(kElements, 1.0F),
        out_(kElements),
        scatter_staging_(ReduceScatter::staging_bytes(begin_, DType::kF32)),
        parts_{{.values = test::view_of(out_)}},
        reduce_staging_(AllReduce::staging_bytes(parts_, group.size())),
        scatter_(group, test::view_of(buffer_), begin_, scatter_staging_.view(), device),
        gather_(group, test::view_of(buffer_), begin_, device),
        reduce_(group, parts_, reduce_staging_.view(), device),
        exchange_(group, device) {}

  void run() {
    scatter_.start();
    reduce_.start();
    scatter_.wait();
    gather_.start();
    reduce_.wait();
    gather_.wait();
    exchange_.start(test::view_of(out_), even_, test::view_of(buffer_), even_);
    exchange_.wait();
    group_.all_reduce(std::span(values_), ReduceOp::kMax);
    const auto own = static_cast<std::size_t>(group_.rank());
    group_.all_gather_bytes(std::as_writable_bytes(std::span(values_)),
                            std::as_bytes(std::span(values_).subspan(own, 1)));
    group_.broadcast(std::as_writable_bytes(std::span(values_)), 1);
    group_.barrier();
  }

 private:
  Communicator& group_;
  PieceBounds begin_;
  PieceBounds even_{0, 1000, 2000, 3000};
  std::vector<float> buffer_;
  std::vector<float> out_;
  std::array<double, 3> values_{};
  test::Staging scatter_staging_;
  std::vector<AllReduce::Part> parts_;
  test::Staging reduce_staging_;
  ReduceScatter scatter_;
  AllGather gather_;
  AllReduce reduce_;
  AllToAll exchange_;
};

TEST(OperationsAllocationTest, NoneAfterTheFirstRound) {
  run_thread_ranks(3, World::Options{}, [](World& world) {
    const auto device = make_cpu_device(1, Backend::kCpu);
    AllOperations operations(world.all(), *device);
    operations.run();
    world.all().barrier();
    const std::int64_t before = ulmus::test::num_allocations();
    world.all().barrier();  // everybody has looked
    for (int round = 0; round < 50; ++round) {
      operations.run();
      world.progress();
    }
    world.all().barrier();
    EXPECT_EQ(ulmus::test::num_allocations() - before, 0);
    world.all().barrier();  // nobody ends, and frees or allocates, before all have looked
  });
}

/// As a store with many buckets does: all its gathers at once, from the very first time.
TEST(OperationsAllocationTest, NoneWithManyUnderWay) {
  constexpr std::size_t kOperations = 700;  // four messages each
  run_thread_ranks(3, World::Options{}, [](World& world) {
    const auto device = make_cpu_device(1, Backend::kCpu);
    std::vector<float> buffer(kOperations * 3, 1.0F);
    std::vector<std::unique_ptr<AllGather>> gathers;
    for (std::size_t i = 0; i < kOperations; ++i) {
      const TensorView three(&buffer[3 * i], DType::kF32, {3});
      gathers.push_back(
          std::make_unique<AllGather>(world.all(), three, PieceBounds{0, 1, 2, 3}, *device));
    }
    world.all().barrier();
    const std::int64_t before = ulmus::test::num_allocations();
    world.all().barrier();  // everybody has looked
    for (int round = 0; round < 2; ++round) {
      for (const auto& gather : gathers) {
        gather->start();
      }
      for (const auto& gather : gathers) {
        gather->wait();
      }
    }
    world.all().barrier();
    EXPECT_EQ(ulmus::test::num_allocations() - before, 0);
    world.all().barrier();  // nobody ends, and frees or allocates, before all have looked
  });
}

}  // namespace
}  // namespace ulmus::comm
