// A program for mpirun whose ranks end badly, for mpi_transport_failure_test.cc:
//
//   mpi_failures SCENARIO OPERATION TIMEOUT_MS FOLDER
//
// A rank that gets an error writes its message to FOLDER/RANK, waits until `num_failing` ranks have
// done so (mpirun ends all when the first is gone) and then aborts with exit code 7. Scenarios with
// a name that begins with "end_" end as the program does, by end_rank().

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "tests/comm/failing_ranks.h"
#include "ulmus/comm/agreement.h"
#include "ulmus/comm/ending.h"
#include "ulmus/comm/launch.h"
#include "ulmus/comm/mpi_session.h"

namespace ulmus::comm {
namespace {

struct Scenario {
  std::string name;
  std::size_t operation;
  std::chrono::milliseconds timeout;
  std::filesystem::path folder;
  bool is_end() const { return name.starts_with("end_"); }
  int num_failing(int num_ranks) const {
    return name == "stopped" || name == "killed" ? num_ranks - 1 : num_ranks;
  }
};

void run_operation(const Scenario& scenario, Communicator& group, Device& device) {
  test::all_operations()[scenario.operation].run(group, device);
}

void differing_lengths(World& world, Device& device, bool sends_more) {
  std::vector<float> in(1 << 16U);
  std::vector<float> out(1 << 16U);
  const std::int64_t last = world.size() - 1;
  PieceBounds in_begin(static_cast<std::size_t>(world.size()) + 1, 0);
  PieceBounds out_begin = in_begin;
  // Only rank 0 sends, and only to the last rank.
  if (world.rank() == 0) in_begin.back() = sends_more ? 20000 : 4;
  if (world.rank() == last) {
    for (std::size_t i = 1; i < out_begin.size(); ++i) {
      out_begin[i] = sends_more ? 4 : 20000;
    }
  }
  AllToAll operation(world.all(), device);
  operation.start(test::view_of(out), out_begin, test::view_of(in), in_begin);
  operation.wait();
  world.all().barrier();  // so that everybody waits for the rank that finds it
}

/// Ranks that end with an error of which every one knows, or does not.
void run_end(const std::string& name, World& world, Device& device) {
  const bool is_last = world.rank() == world.size() - 1;
  if (name == "end_alone" && !is_last) {
    for (;;) {
      world.all().barrier();
    }
  }
  if (name != "end_torn") throw InputError("no such key");
  // One rank has a message on its way that nobody takes.
  constexpr std::int64_t kPiece = std::int64_t{1} << 20U;
  std::vector<float> buffer(static_cast<std::size_t>(kPiece * world.size()));
  PieceBounds begin;
  for (int member = 0; member <= world.size(); ++member) {
    begin.push_back(member * kPiece);
  }
  std::vector<int> members(static_cast<std::size_t>(world.size()));
  std::iota(members.begin(), members.end(), 0);
  const auto group = world.make_group("weights", {members});
  AllGather gather(*group, test::view_of(buffer), begin, device);
  if (is_last) gather.start();
  agree(world.all(), [&] {
    if (is_last) throw InputError("no such key");
  });
}

void run_scenario(const Scenario& scenario, World& world) {
  const auto device = make_cpu_device(1, Backend::kCpu);
  const bool is_last = world.rank() == world.size() - 1;
  if (scenario.is_end()) return run_end(scenario.name, world, *device);
  if (scenario.name == "before_finalize") return world.all().barrier();
  if (scenario.name == "longer") return differing_lengths(world, *device, true);
  if (scenario.name == "shorter") return differing_lengths(world, *device, false);
  std::vector<int> members(static_cast<std::size_t>(world.size()));
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i] = static_cast<int>(i);
  }
  const auto group = world.make_group("dense", {members});
  run_operation(scenario, *group, *device);
  group->barrier();
  if (scenario.name == "throws" && is_last) throw Error("no such thing");
  if (scenario.name == "stopped" && is_last) raise(SIGSTOP);
  if (scenario.name == "killed" && is_last) raise(SIGKILL);
  if (scenario.name == "swapped") {
    Scenario other = scenario;
    other.operation = (scenario.operation + 1) % test::all_operations().size();
    run_operation(is_last ? other : scenario, *group, *device);
    run_operation(is_last ? scenario : other, *group, *device);
    return;
  }
  for (;;) {
    run_operation(scenario, *group, *device);
  }
}

void leave_message(const Scenario& scenario, const World& world, const std::string& message) {
  const std::filesystem::path file = scenario.folder / std::to_string(world.rank());
  std::ofstream(file.string() + ".part") << message;
  std::filesystem::rename(file.string() + ".part", file);
  const Clock::time_point end = Clock::now() + std::chrono::seconds(10);
  for (int num_there = 0; num_there < scenario.num_failing(world.size()) && Clock::now() < end;) {
    num_there = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      num_there += std::filesystem::exists(scenario.folder / std::to_string(rank)) ? 1 : 0;
    }
    sched_yield();
  }
}

constexpr int kExitCode = 7;

void tell(std::string_view error) {
  std::fprintf(stderr, "error: %s\n", std::string(error).c_str());
}

int run_rank(const Scenario& scenario) {
  const auto stop_at = [&](const char* name, int rank, int size) {
    if (scenario.name == name && rank == size - 1) raise(SIGSTOP);
  };
  stop_at("before_init", launched_rank().value_or(0), launched_ranks().value_or(0));
  MpiSession session(
      {.start = scenario.timeout, .timeout = scenario.timeout, .give_up = [](std::string_view why) {
         tell(why);
         ::_exit(kExitCode);
       }});
  stop_at("before_world", session.rank(), session.size());
  {
    World world(session.make_transport(), {.timeout = scenario.timeout});
    try {
      run_scenario(scenario, world);
    } catch (const Error& error) {
      if (scenario.is_end()) {
        return end_rank(session, world, ending_of_current(), tell);
      }
      world.fail(error.what());
      leave_message(scenario, world, error.what());
      session.abort(kExitCode);
    }
  }
  stop_at("before_finalize", session.rank(), session.size());
  return 0;
}

}  // namespace
}  // namespace ulmus::comm

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return ulmus::comm::run_rank({.name = argv[1],
                                .operation = static_cast<std::size_t>(std::atoi(argv[2])),
                                .timeout = std::chrono::milliseconds(std::atoi(argv[3])),
                                .folder = argv[4]});
}
