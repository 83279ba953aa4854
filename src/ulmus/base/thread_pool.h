#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace ulmus {

/// A fixed set of threads that run one job at a time. Nothing is allocated by a run.
///
/// The same n and number of threads always give the same ranges, so that a reduction over ranges
/// in thread order is reproducible (design, law 3). A job must not start another job on its pool.
class ThreadPool {
 public:
  /// `num_threads` >= 1, the calling thread included.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  /// body(thread_idx) once on every thread; the caller is thread 0. Returns when all are done and
  /// rethrows the exception of the lowest thread that threw.
  template <class Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_erased([](void* context, int thread_idx) { (*static_cast<Plain*>(context))(thread_idx); },
               const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

  /// body(begin, end, thread_idx): [0, n) cut into one contiguous range for each thread, cut points
  /// at multiples of `grain`. Empty ranges are not called.
  template <class Body>
  void for_ranges(std::int64_t n, std::int64_t grain, Body&& body) {
    if (n <= 0) return;
    const std::int64_t units = (n + grain - 1) / grain;
    if (units == 1 || num_threads_ == 1) {
      body(std::int64_t{0}, n, 0);
      return;
    }
    run([&](int thread_idx) {
      const std::int64_t begin = units * thread_idx / num_threads_ * grain;
      const std::int64_t end = units * (thread_idx + 1) / num_threads_ * grain;
      if (begin < end) body(begin, end < n ? end : n, thread_idx);
    });
  }

  /// body(item, thread_idx) for each item in [0, n); threads take the next item as they become
  /// free. Only for items whose results do not depend on the thread that made them.
  template <class Body>
  void for_items(std::int64_t n, Body&& body) {
    if (n <= 0) return;
    std::atomic<std::int64_t> next{0};
    run([&](int thread_idx) {
      for (;;) {
        const std::int64_t item = next.fetch_add(1, std::memory_order_relaxed);
        if (item >= n) return;
        body(item, thread_idx);
      }
    });
  }

 private:
  using Job = void (*)(void* context, int thread_idx);
  void run_erased(Job job, void* context);
  void worker(int thread_idx);
  void stop();
  void call(int thread_idx);

  int num_threads_;
  Job job_ = nullptr;
  void* context_ = nullptr;
  bool running_ = false;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::exception_ptr> errors_;
  std::vector<std::jthread> threads_;
};

}  // namespace ulmus
