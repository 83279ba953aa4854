#include "ulmus/base/thread_pool.h"

#include <system_error>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"

namespace ulmus {

namespace {

// Kernels follow each other within microseconds: a short spin saves the futex call, and a bounded
// one leaves the core to others when there are more threads than cores.
constexpr int kSpins = 2000;

template <class Atomic, class Value>
void wait_while_equal(const Atomic& atomic, Value value) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (atomic.load(std::memory_order_acquire) != value) return;
  }
  while (atomic.load(std::memory_order_acquire) == value) {
    atomic.wait(value, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads),
      errors_(static_cast<std::size_t>(num_threads > 0 ? num_threads : 1)) {
  ULMUS_CHECK(num_threads >= 1, "num_threads ", num_threads);
  threads_.reserve(static_cast<std::size_t>(num_threads - 1));
  try {
    for (int thread_idx = 1; thread_idx < num_threads; ++thread_idx) {
      threads_.emplace_back([this, thread_idx] { worker(thread_idx); });
    }
  } catch (const std::system_error& error) {
    stop();
    fail("the system starts ", threads_.size() + 1, " of ", num_threads, " threads: ", error.what(),
         "; fewer threads help");
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  generation_.notify_all();
}

void ThreadPool::call(int thread_idx) {
  try {
    job_(context_, thread_idx);
  } catch (...) {
    errors_[static_cast<std::size_t>(thread_idx)] = std::current_exception();
  }
}

void ThreadPool::run_erased(Job job, void* context) {
  ULMUS_CHECK(!running_, "a job was started inside a job of the same pool");
  running_ = true;
  job_ = job;
  context_ = context;
  pending_.store(num_threads_ - 1, std::memory_order_relaxed);
  if (num_threads_ > 1) {
    generation_.fetch_add(1, std::memory_order_acq_rel);
    generation_.notify_all();
  }
  call(0);
  for (int left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire)) {
    wait_while_equal(pending_, left);
  }
  running_ = false;
  std::exception_ptr first;
  for (std::exception_ptr& error : errors_) {
    const std::exception_ptr own = std::exchange(error, nullptr);
    if (!first) first = own;
  }
  if (first) std::rethrow_exception(first);
}

void ThreadPool::worker(int thread_idx) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while_equal(generation_, seen);
    ++seen;
    if (stopping_.load(std::memory_order_acquire)) return;
    call(thread_idx);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace ulmus
