#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ulmus::cli {

struct BenchOptions {
  std::string name;
  std::string config;  ///< of measurements that take a configuration
  std::vector<std::string> overrides;
  bool lists = false;
  int repetitions = 5;
  int threads = 0;
  std::string json;
};

/// One measurement of `ulmus bench`.
struct Bench {
  std::string_view name;
  std::string_view answers;
  int (*run)(const BenchOptions& options);
  bool takes_ranks = false;  ///< runs on all ranks that mpirun or srun started
};

/// All that are built; a new one is one file and one line in bench.cc.
std::span<const Bench> benches();

int bench_ceiling(const BenchOptions& options);
int bench_checkpoint(const BenchOptions& options);
int bench_step(const BenchOptions& options);

/// Median, smallest and largest of some repetitions.
struct Spread {
  double median = 0.0;
  double min = 0.0;
  double max = 0.0;
};
Spread spread_of(std::vector<double> values);

/// "AMD EPYC 9R14, 2 threads": the machine, as results state it.
std::string machine_text(int threads);

}  // namespace ulmus::cli
