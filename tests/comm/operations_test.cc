#include "ulmus/comm/operations.h"

#include <gtest/gtest.h>

#include "tests/comm/conformance.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm {
namespace {

/// Each size of world, on ranks that are threads.
class OperationsTest : public testing::TestWithParam<int> {
 protected:
  template <class Body>
  static void run(Body&& body, const World::Options& options = {}) {
    run_thread_ranks(GetParam(), options, [&](World& world) {
      const auto device = make_cpu_device(world.size() == 2 ? 2 : 1, Backend::kCpu);
      body(world, *device);
    });
  }
};

TEST_P(OperationsTest, TheWorldIsAGroup) {
  run([](World& world, Device& device) { test::check_group(world.all(), device); });
}

TEST_P(OperationsTest, GroupsWorkBesideEachOther) {
  run([](World& world, Device& device) { test::check_subgroups(world, device); });
}

TEST_P(OperationsTest, SeveralAreUnderWayAtOnce) {
  run([](World& world, Device& device) { test::check_overlap(world, device); });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, OperationsTest, testing::Values(1, 2, 3, 5, 8));

class LargeOperationsTest : public OperationsTest {};

TEST_P(LargeOperationsTest, MessagesOfSeveralChunks) {
  run([](World& world, Device& device) { test::check_large_messages(world.all(), device); },
      test::kSmallMessages);
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, LargeOperationsTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace ulmus::comm
