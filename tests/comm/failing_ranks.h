#pragma once

#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "tests/comm/rank_values.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm::test {

/// An operation of a group by its name, run once with a little data.
struct NamedOperation {
  std::string name;
  std::function<void(Communicator&, Device&)> run;
};

inline constexpr std::int64_t kOperationElements = 24;

inline std::vector<double> operation_values() {
  return std::vector<double>(kOperationElements, 1.0);
}

inline PieceBounds operation_pieces(const Communicator& group) {
  PieceBounds begin(static_cast<std::size_t>(group.size()) + 1);
  for (std::size_t member = 0; member < begin.size(); ++member) {
    begin[member] = kOperationElements / group.size() * static_cast<std::int64_t>(member);
  }
  begin.back() = kOperationElements;
  return begin;
}

inline void run_broadcast(Communicator& group, Device& /*device*/) {
  std::vector<double> bytes = operation_values();
  group.broadcast(std::as_writable_bytes(std::span(bytes)), group.size() - 1);
}

inline void run_all_gather_bytes(Communicator& group, Device& /*device*/) {
  const std::vector<double> mine = operation_values();
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather_bytes(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(mine)));
}

inline void run_all_reduce_values(Communicator& group, Device& /*device*/) {
  std::vector<double> sums = operation_values();
  group.all_reduce(std::span(sums), ReduceOp::kSum);
}

inline void run_reduce_scatter(Communicator& group, Device& device) {
  std::vector<double> buffer = operation_values();
  const PieceBounds begin = operation_pieces(group);
  Staging staging(ReduceScatter::staging_bytes(begin, DType::kF64));
  ReduceScatter operation(group, view_of(buffer), begin, staging.view(), device);
  operation.start();
  operation.wait();
}

inline void run_all_gather(Communicator& group, Device& device) {
  std::vector<double> buffer = operation_values();
  AllGather operation(group, view_of(buffer), operation_pieces(group), device);
  operation.start();
  operation.wait();
}

inline void run_all_reduce(Communicator& group, Device& device) {
  std::vector<double> buffer = operation_values();
  const std::vector<AllReduce::Part> parts{{.values = view_of(buffer)}};
  Staging staging(AllReduce::staging_bytes(parts, group.size()));
  AllReduce operation(group, parts, staging.view(), device);
  operation.start();
  operation.wait();
}

inline void run_all_to_all(Communicator& group, Device& device) {
  std::vector<double> in = operation_values();
  std::vector<double> out = operation_values();
  PieceBounds even = operation_pieces(group);
  even.back() = kOperationElements / group.size() * group.size();
  AllToAll operation(group, device);
  operation.start(view_of(out), even, view_of(in), even);
  operation.wait();
}

inline std::vector<NamedOperation> all_operations() {
  return {
      {"barrier", [](Communicator& group, Device& /*device*/) { group.barrier(); }},
      {"broadcast", run_broadcast},
      {"all_gather_bytes", run_all_gather_bytes},
      {"all_reduce of host values", run_all_reduce_values},
      {"reduce_scatter", run_reduce_scatter},
      {"all_gather", run_all_gather},
      {"all_reduce", run_all_reduce},
      {"all_to_all", run_all_to_all},
  };
}

/// How a world of threads ended.
struct Ending {
  std::vector<std::string> messages;  ///< of each rank's exception, empty where there was none
  std::string thrown;                 ///< by run_thread_ranks
};

/// Lets a rank do nothing until every other one has failed.
class Frozen {
 public:
  explicit Frozen(int num_others) : others_(num_others) {}
  void wait_for_failure_of_others() { others_.wait(); }
  void count_failure() { others_.count_down(); }

 private:
  std::latch others_;
};

/// body(world, device, frozen) on ranks that are threads.
inline Ending run_failing(int size, std::chrono::milliseconds timeout,
                          const std::function<void(World&, Device&, Frozen&)>& body) {
  Ending ending;
  ending.messages.resize(static_cast<std::size_t>(size));
  Frozen frozen(size - 1);
  try {
    run_thread_ranks(size, {.timeout = timeout}, [&](World& world) {
      const auto device = make_cpu_device(1, Backend::kCpu);
      try {
        body(world, *device, frozen);
      } catch (const std::exception& error) {
        ending.messages[static_cast<std::size_t>(world.rank())] = error.what();
        frozen.count_failure();
        throw;
      }
    });
  } catch (const std::exception& error) {
    ending.thrown = error.what();
  }
  return ending;
}

}  // namespace ulmus::comm::test
