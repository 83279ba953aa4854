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

inline std::vector<NamedOperation> all_operations() {
  constexpr std::int64_t kElements = 24;
  const auto pieces = [](const Communicator& group) {
    PieceBounds begin;
    for (int member = 0; member <= group.size(); ++member) {
      begin.push_back(kElements * member / group.size());
    }
    return begin;
  };
  const auto values = [] { return std::vector<double>(kElements, 1.0); };
  return {
      {"barrier", [](Communicator& group, Device&) { group.barrier(); }},
      {"broadcast",
       [=](Communicator& group, Device&) {
         std::vector<double> bytes = values();
         group.broadcast(std::as_writable_bytes(std::span(bytes)), group.size() - 1);
       }},
      {"all_gather_bytes",
       [=](Communicator& group, Device&) {
         const std::vector<double> mine = values();
         std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
         group.all_gather_bytes(std::as_writable_bytes(std::span(all)),
                                std::as_bytes(std::span(mine)));
       }},
      {"all_reduce of host values",
       [=](Communicator& group, Device&) {
         std::vector<double> sums = values();
         group.all_reduce(std::span(sums), ReduceOp::kSum);
       }},
      {"reduce_scatter",
       [=](Communicator& group, Device& device) {
         std::vector<double> buffer = values();
         Staging staging(ReduceScatter::staging_bytes(pieces(group), DType::kF64));
         ReduceScatter operation(group, view_of(buffer), pieces(group), staging.view(), device);
         operation.start();
         operation.wait();
       }},
      {"all_gather",
       [=](Communicator& group, Device& device) {
         std::vector<double> buffer = values();
         AllGather operation(group, view_of(buffer), pieces(group), device);
         operation.start();
         operation.wait();
       }},
      {"all_reduce",
       [=](Communicator& group, Device& device) {
         std::vector<double> buffer = values();
         std::vector<AllReduce::Part> parts{{.values = view_of(buffer)}};
         Staging staging(AllReduce::staging_bytes(parts, group.size()));
         AllReduce operation(group, parts, staging.view(), device);
         operation.start();
         operation.wait();
       }},
      {"all_to_all",
       [=](Communicator& group, Device& device) {
         std::vector<double> in = values();
         std::vector<double> out = values();
         AllToAll operation(group, device);
         PieceBounds even;
         for (int member = 0; member <= group.size(); ++member) {
           even.push_back(kElements / group.size() * member);
         }
         operation.start(view_of(out), even, view_of(in), even);
         operation.wait();
       }},
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
