#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ulmus/base/error.h"
#include "ulmus/cli/bench.h"
#include "ulmus/cli/ceiling.h"
#include "ulmus/cli/output.h"
#include "ulmus/ops/cpu/blas.h"

namespace ulmus::cli {
namespace {

nlohmann::json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

std::string shape_text(const GemmShape& shape) {
  return fmt::format("{} x {} x {}", shape.m, shape.n, shape.k);
}

}  // namespace

int bench_ceiling(const BenchOptions& options) {
  if (!options.config.empty() || !options.overrides.empty()) {
    fail_input("ulmus bench ceiling measures the machine: it takes neither CONFIG nor --set");
  }
  const int threads = options.threads > 0 ? options.threads : available_threads();
  const std::unique_ptr<Device> device = make_cpu_device(threads, Backend::kCpu);
  CeilingMeter meter(*device);
  std::vector<double> best;
  std::array<std::vector<double>, kCeilingShapes.size()> by_shape;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    const CeilingSample sample = meter.sample();
    best.push_back(best_of(sample));
    for (std::size_t i = 0; i < sample.size(); ++i) {
      by_shape[i].push_back(sample[i]);
    }
  }

  TextTable table({"shape (m x n x k)", "median GFLOP/s", "min", "max"});
  nlohmann::json rows = nlohmann::json::array();
  const auto add_row = [&](const std::string& name, const Spread& spread) {
    table.add_row({name, fmt::format("{:.1f}", spread.median), fmt::format("{:.1f}", spread.min),
                   fmt::format("{:.1f}", spread.max)});
  };
  for (std::size_t i = 0; i < by_shape.size(); ++i) {
    const Spread spread = spread_of(by_shape[i]);
    add_row(shape_text(kCeilingShapes[i]), spread);
    rows.push_back({{"m", kCeilingShapes[i].m},
                    {"n", kCeilingShapes[i].n},
                    {"k", kCeilingShapes[i].k},
                    {"gflops", spread_json(spread)}});
  }
  const Spread ceiling = spread_of(best);
  add_row("best of the five", ceiling);
  const nlohmann::json facts = {{"bench", "ceiling"},
                                {"machine", machine_text(threads)},
                                {"blas", fmt::format("OpenBLAS, {}", ops::cpu::blas_core_name())},
                                {"threads", threads},
                                {"dtype", "f32"},
                                {"repetitions", options.repetitions},
                                {"seed", 0},
                                {"gflops", ceiling.median},
                                {"gflops_spread", spread_json(ceiling)},
                                {"rows", rows}};
  print_facts(fmt::format("{}, OpenBLAS {}, f32, {} repetitions\n{}", machine_text(threads),
                          ops::cpu::blas_core_name(), options.repetitions, table.text()),
              facts.dump(2), options.json);
  return 0;
}

}  // namespace ulmus::cli
