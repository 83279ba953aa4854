#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/base/philox.h"
#include "ulmus/cli/bench.h"
#include "ulmus/cli/ceiling.h"
#include "ulmus/cli/on_ranks.h"
#include "ulmus/cli/output.h"
#include "ulmus/ops/cpu/blas.h"
#include "ulmus/train/layout.h"
#include "ulmus/train/measure.h"
#include "ulmus/train/metrics.h"
#include "ulmus/train/runtime.h"

namespace ulmus::cli {
namespace {

constexpr int kWarmUp = 2;  // steps that are not counted

/// This rank's part of a step of whole sequences of uniformly drawn tokens.
data::HostBatch made_up_step(const train::Config& config, const data::Deal& deal) {
  const std::int64_t length = config.data.sequence_length;
  const std::int64_t sequences = config.batch.tokens / length;
  const PhiloxKey key = philox_key(config.run.seed, RandomPurpose::kTest, "bench.step");
  const auto vocab = static_cast<std::uint32_t>(config.model.vocab);
  data::HostBatch batch;
  batch.sequence_length = length;
  for (std::int64_t slot = 0; slot < deal.num_slots(sequences); ++slot) {
    const data::MicroBatch micro = deal.micro_batch(slot, sequences);
    batch.micro_batches.push_back(micro);
    batch.num_sequences += micro.num_sequences;
    const std::int64_t first = micro.first_sequence * length;
    for (std::int64_t i = first; i < first + micro.num_sequences * length; ++i) {
      const PhiloxCounter words = philox(key, {static_cast<std::uint32_t>(i), 0, 0, 0});
      batch.tokens.push_back(static_cast<std::int32_t>(words[0] % vocab));
      batch.targets.push_back(static_cast<std::int32_t>(words[1] % vocab));
      batch.document_begin.push_back(0);
      batch.valid.push_back(1);
    }
  }
  batch.loss_tokens = static_cast<std::int64_t>(batch.targets.size());
  batch.valid_tokens = batch.loss_tokens;
  return batch;
}

/// Times steps of all ranks, each between two readings of the ceiling.
class StepBench {
 public:
  StepBench(const train::Config& config, comm::World& world)
      : config_(config),
        world_(world),
        ranks_(world, train::layout_of(config, world)),
        device_(train::make_device(config, ranks_.node())),
        ceiling_(*device_),
        memory_(train::measure_within_budget(config, train::Purpose::kTrain, ranks_)),
        runtime_(config, train::Purpose::kTrain, *device_, ranks_, memory_),
        batch_(made_up_step(config, {.micro_sequences = config.batch.micro_sequences,
                                     .rank = ranks_.here().data,
                                     .ranks = ranks_.layout().data()})) {
    runtime_.initialize_parameters();
  }

  void run(int repetitions) {
    for (int i = 0; i < kWarmUp; ++i)
      step();
    count_bytes();
    double before = read_ceiling();
    for (int i = 0; i < repetitions; ++i) {
      const double elapsed = step();
      const double after = read_ceiling();
      const auto tokens = static_cast<double>(config_.batch.tokens);
      const double gflops = tokens * flops_per_token_ / elapsed * 1e-9;
      seconds_.push_back(elapsed);
      tokens_per_s_.push_back(tokens / elapsed);
      gflops_.push_back(gflops);
      ceilings_.push_back(std::max(before, after));
      fractions_.push_back(gflops / ceilings_.back());
      before = after;
    }
  }

  void print(int repetitions, const std::string& target) {
    const Spread fraction = spread_of(fractions_);
    const Spread tokens = spread_of(tokens_per_s_);
    const double load = train::worst_max_over_mean(runtime_.read_record());
    const nlohmann::json facts = {{"bench", "step"},
                                  {"machine", machine_text(threads())},
                                  {"blas", fmt::format("OpenBLAS, {}", ops::cpu::blas_core_name())},
                                  {"layout", ranks_.layout().text()},
                                  {"ranks", ranks_.layout().ranks},
                                  {"threads", threads()},
                                  {"seed", config_.run.seed},
                                  {"repetitions", repetitions},
                                  {"tokens_per_step", config_.batch.tokens},
                                  {"step_s", spread_of(seconds_).median},
                                  {"tokens_per_s", tokens.median},
                                  {"tokens_per_s_min", tokens.min},
                                  {"tokens_per_s_max", tokens.max},
                                  {"useful_gflops", spread_of(gflops_).median},
                                  {"ceiling_gflops", spread_of(ceilings_).median},
                                  {"fraction", fraction.median},
                                  {"fraction_min", fraction.min},
                                  {"fraction_max", fraction.max},
                                  {"max_over_mean", load},
                                  {"memory_bytes", memory_bytes_},
                                  {"sent_bytes", sent_bytes_}};
    print_facts(
        fmt::format("{}, {} a rank; {} tokens a step, {} steps\n"
                    "{:.0f} tokens/s ({:.0f} to {:.0f}), {:.1f} useful GFLOP/s, ceiling {:.1f}: "
                    "{:.3f} of it ({:.3f} to {:.3f}); load max/mean {:.2f}\n",
                    ranks_.layout().text(), machine_text(threads()),
                    grouped_digits(config_.batch.tokens), repetitions, tokens.median, tokens.min,
                    tokens.max, spread_of(gflops_).median, spread_of(ceilings_).median,
                    fraction.median, fraction.min, fraction.max, load),
        facts.dump(2), target);
  }

 private:
  int threads() const { return train::num_threads(config_, ranks_.node()); }

  /// What the fullest rank holds, and what the busiest sends in a step: gradients and weights of
  /// dense parameters, those of experts, token rows.
  void count_bytes() {
    const auto groups = {&ranks_.dense(), &ranks_.replicas(), &ranks_.experts()};
    for (comm::Communicator* group : groups)
      group->reset_traffic();
    step();
    for (const comm::Communicator* group : groups)
      sent_bytes_[std::string(group->name())] = most_of(group->traffic().sent_bytes);
    for (const auto& [name, bytes] : memory_.lines())
      memory_bytes_[std::string(name)] = most_of(bytes);
  }

  /// The largest of all ranks'.
  std::int64_t most_of(std::int64_t value) {
    std::array<std::int64_t, 1> most = {value};
    world_.all().all_reduce(most, comm::ReduceOp::kMax);
    return most[0];
  }

  /// Seconds of one step, weights back on every rank.
  double step() {
    world_.all().barrier();
    const auto begin = std::chrono::steady_clock::now();
    runtime_.train_step(batch_, {config_.batch.tokens, config_.batch.tokens}, steps_++,
                        config_.optim.phases.front().lr);
    runtime_.read_record();
    runtime_.parameter_store().finish_weights();
    world_.all().barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Of all ranks together, measured at the same time.
  double read_ceiling() {
    world_.all().barrier();
    std::array<double, 1> sum = {best_of(ceiling_.sample())};
    world_.all().all_reduce(sum, comm::ReduceOp::kSum);
    return sum[0];
  }

  const train::Config& config_;
  comm::World& world_;
  parallel::Ranks ranks_;
  std::unique_ptr<Device> device_;
  CeilingMeter ceiling_;
  MemoryTable memory_;
  train::Runtime runtime_;
  data::HostBatch batch_;
  double flops_per_token_ = train::useful_flops_per_token(config_);
  std::int64_t steps_ = 0;
  std::map<std::string, std::int64_t> memory_bytes_;
  std::map<std::string, std::int64_t> sent_bytes_;
  std::vector<double> seconds_;
  std::vector<double> tokens_per_s_;
  std::vector<double> gflops_;
  std::vector<double> ceilings_;
  std::vector<double> fractions_;
};

}  // namespace

int bench_step(const BenchOptions& options) {
  if (options.config.empty()) {
    fail_input("ulmus bench step: CONFIG is missing, configs/bench/moe-cpu.toml for instance");
  }
  if (options.threads > 0) fail_input("ulmus bench step: give --set device.threads=N");
  return run_on_ranks(options.config, options.overrides,
                      [&](const train::Config& config, comm::World& world) {
                        StepBench bench(config, world);
                        bench.run(options.repetitions);
                        if (prints(world)) bench.print(options.repetitions, options.json);
                        return 0;
                      });
}

}  // namespace ulmus::cli
