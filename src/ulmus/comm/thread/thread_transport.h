#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/comm/transport.h"

namespace ulmus::comm {

/// Transports of `size` >= 1 ranks that are threads of this process, by rank. Each may be used by
/// another thread, and may go at any time: its messages then never arrive. A receiver copies
/// straight from the sender's buffer.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int size);

/// How run_thread_ranks starts a thread; tests have one that fails.
using StartThread = std::function<std::jthread(std::function<void()>)>;
std::jthread start_thread(std::function<void()> body);

/// body(world) on `size` threads, each with its rank of one world; returns when all have ended.
/// When a body throws, its world fails, so that the others end, too; then the exception that came
/// first is thrown again (the first that is no CommError, if there is one), with "rank 2: " before
/// its message. A thread that does not start is a rank that fails.
void run_thread_ranks(int size, const World::Options& options,
                      const std::function<void(World&)>& body,
                      const StartThread& start = start_thread);

}  // namespace ulmus::comm
