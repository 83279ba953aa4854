#include "ulmus/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <stdexcept>

#include "ulmus/base/error.h"

namespace ulmus {
namespace {

TEST(ThreadPool, RangesCoverEveryItemOnceAtMultiplesOfTheGrain) {
  for (const int num_threads : {1, 2, 3, 5}) {
    ThreadPool pool(num_threads);
    for (const std::int64_t n : {0, 1, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 8, 64}) {
        std::vector<int> hits(static_cast<std::size_t>(n));
        pool.for_ranges(n, grain, [&](std::int64_t begin, std::int64_t end, int) {
          EXPECT_EQ(begin % grain, 0);
          for (std::int64_t i = begin; i < end; ++i)
            ++hits[static_cast<std::size_t>(i)];
        });
        EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), std::int64_t{0}), n);
        for (const int hit : hits)
          EXPECT_EQ(hit, 1);
      }
    }
  }
}

TEST(ThreadPool, ItemsAreTakenOnce) {
  ThreadPool pool(4);
  std::vector<int> hits(1000);
  pool.for_items(1000, [&](std::int64_t item, int) { ++hits[static_cast<std::size_t>(item)]; });
  for (const int hit : hits)
    EXPECT_EQ(hit, 1);
}

TEST(ThreadPool, ManyShortJobsInARow) {
  ThreadPool pool(3);
  std::vector<std::int64_t> sums(3);
  for (int job = 0; job < 20000; ++job) {
    pool.run([&](int thread_idx) { ++sums[static_cast<std::size_t>(thread_idx)]; });
  }
  EXPECT_EQ(sums, (std::vector<std::int64_t>{20000, 20000, 20000}));
}

TEST(ThreadPool, RethrowsAndStaysUsable) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run([](int thread_idx) {
    if (thread_idx == 1) throw std::runtime_error("from a worker");
  }),
               std::runtime_error);
  int sum = 0;
  pool.run([&](int thread_idx) {
    if (thread_idx == 0) sum = 1;
  });
  EXPECT_EQ(sum, 1);
}

TEST(ThreadPool, ErrorsOfOneJobEndWithIt) {
  ThreadPool pool(4);
  try {
    pool.run([](int thread_idx) {
      if (thread_idx > 0) throw std::runtime_error(std::to_string(thread_idx));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "1");  // the lowest thread's
  }
  EXPECT_NO_THROW(pool.run([](int) {}));
}

TEST(ThreadPool, ThreadsThatTheSystemRefusesAreAnErrorAndNoHang) {
  const pid_t child = ::fork();
  if (child == 0) {
    // A gibibyte of address space holds no 4,096 stacks.
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::getpagesize()) + (rlim_t{1} << 30U);
    const rlimit limit = {most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      const ThreadPool pool(4096);
    } catch (const Error&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ThreadPool, RefusesAJobInsideAJob) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run([&](int thread_idx) {
    if (thread_idx == 0) pool.run([](int) {});
  }),
               Error);
  EXPECT_THROW(ThreadPool(0), Error);
}

}  // namespace
}  // namespace ulmus
