#include "ulmus/comm/mpi_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/comm/conformance.h"
#include "ulmus/comm/launch.h"
#include "ulmus/comm/node.h"
#include "ulmus/comm/thread/thread_transport.h"

// Run by mpirun with several numbers of ranks: every rank runs the same tests in the same order. A
// process has one session, so there is one test, in sections.

namespace ulmus::comm {
namespace {

void check_session(MpiSession& session, World& world) {
  EXPECT_TRUE(is_launched());
  EXPECT_EQ(launched_ranks(), session.size());
  EXPECT_EQ(world.node_leader(), 0) << "these tests run on one machine";
  EXPECT_EQ(find_node(world).ranks, session.size());
  EXPECT_EQ(world.rank(), session.rank());
  EXPECT_EQ(world.size(), session.size());
  EXPECT_EQ(world.backend(), "mpi");
  EXPECT_THAT(MpiSession::library_version(), testing::HasSubstr("MPI"));
}

/// The same sums on ranks that are threads of this process.
void check_bits_of_threads(World& world, Device& device) {
  const std::vector<float> sums = test::ordered_sums(world.all(), device);
  run_thread_ranks(world.size(), World::Options{}, [&](World& threads) {
    const auto own_device = make_cpu_device(1, Backend::kCpu);
    const std::vector<float> expected = test::ordered_sums(threads.all(), *own_device);
    if (threads.rank() != world.rank()) return;
    test::expect_bits(sums, threads.all(), "mpi against thread",
                      [&](std::int64_t i) { return expected[static_cast<std::size_t>(i)]; });
  });
}

TEST(MpiSessionTest, Conforms) {
  MpiSession session;
  {
    World world(session.make_transport(), World::Options{});
    const auto device = make_cpu_device(1, Backend::kCpu);
    check_session(session, world);
    test::check_group(world.all(), *device);
    test::check_subgroups(world, *device);
    test::check_overlap(world, *device);
    check_bits_of_threads(world, *device);
  }
  // A second world after the first.
  World world(session.make_transport(), test::kSmallMessages);
  const auto device = make_cpu_device(1, Backend::kCpu);
  test::check_large_messages(world.all(), *device);
}

}  // namespace
}  // namespace ulmus::comm
