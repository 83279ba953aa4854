#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::comm {

namespace {

/// What ended the ranks, in the order in which it did.
class Causes {
 public:
  void add(int rank, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    causes_.push_back({rank, std::move(error)});
  }
  void rethrow_first() const {
    for (const Cause& cause : causes_) {
      if (!is_consequence(cause)) rethrow(cause);
    }
    if (!causes_.empty()) rethrow(causes_.front());
  }

 private:
  struct Cause {
    int rank;
    std::exception_ptr error;
  };

  static bool is_consequence(const Cause& cause) {
    try {
      std::rethrow_exception(cause.error);
    } catch (const CommError&) {
      return true;
    } catch (...) {
      return false;
    }
  }

  [[noreturn]] static void rethrow(const Cause& cause) {
    const std::string prefix = concat("rank ", cause.rank, ": ");
    try {
      std::rethrow_exception(cause.error);
    } catch (const CommError& error) {
      throw CommError(prefix + error.what());
    } catch (const InputError& error) {
      throw InputError(prefix + error.what());
    } catch (const DifferenceError& error) {
      throw DifferenceError(prefix + error.what());
    } catch (const Error& error) {
      throw Error(prefix + error.what(), error.exit_code(), error.scope());
    } catch (const std::exception& error) {
      throw Error(prefix + error.what());
    }
  }

  std::mutex mutex_;
  std::vector<Cause> causes_;
};

void run_rank(std::unique_ptr<Transport> transport, const World::Options& options,
              const std::function<void(World&)>& body, Causes& causes) {
  const int rank = transport->rank();
  try {
    World world(std::move(transport), options);
    try {
      body(world);
    } catch (const std::exception& error) {
      causes.add(rank, std::current_exception());
      world.fail(error.what());
    } catch (...) {
      causes.add(rank, std::current_exception());
      world.fail("an exception of an unknown type");
    }
  } catch (...) {
    causes.add(rank, std::current_exception());
  }
}

}  // namespace

void run_thread_ranks(int size, const World::Options& options,
                      const std::function<void(World&)>& body, const StartThread& start) {
  std::vector<std::unique_ptr<Transport>> transports = make_thread_transports(size);
  Causes causes;
  {
    std::vector<std::jthread> threads;
    threads.reserve(transports.size());
    for (std::unique_ptr<Transport>& transport : transports) {
      try {
        threads.push_back(start([&] { run_rank(std::move(transport), options, body, causes); }));
      } catch (const std::exception& error) {
        // The others have started, and wait for this rank and those behind it.
        const std::string why = concat("its thread does not start: ", error.what());
        transport->post_notice(Notice::Kind::kFailed, why);
        causes.add(transport->rank(), std::make_exception_ptr(Error(why)));
        break;
      }
    }
  }
  causes.rethrow_first();
}

std::jthread start_thread(std::function<void()> body) { return std::jthread(std::move(body)); }

}  // namespace ulmus::comm
