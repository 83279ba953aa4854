#include "ulmus/cli/bench.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "ulmus/base/check.h"

namespace ulmus::cli {

std::span<const Bench> benches() {
  static constexpr std::array kBenches = {
      Bench{"ceiling", "this machine's dense GEMM peak, all threads", bench_ceiling},
      Bench{"checkpoint", "saving and loading, against synced copies and cold reads of the files",
            bench_checkpoint, true},
      Bench{"step", "one configuration's training step, against the ceiling", bench_step, true},
  };
  return kBenches;
}

Spread spread_of(std::vector<double> values) {
  ULMUS_CHECK(!values.empty(), "no repetitions");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  return {median, values.front(), values.back()};
}

std::string machine_text(int threads) {
  std::string model = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  return concat(model, ", ", threads, threads == 1 ? " thread" : " threads");
}

}  // namespace ulmus::cli
