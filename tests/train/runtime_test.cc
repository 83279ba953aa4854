#include "ulmus/train/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/allocation_counter.h"
#include "tests/train/small_run.h"
#include "ulmus/parallel/local_exchange.h"
#include "ulmus/train/measure.h"
#include "ulmus/train/trainer.h"

namespace ulmus::test {
namespace {

struct Prepared {
  explicit Prepared(const train::Config& run_config)
      : config(run_config),
        device(train::make_device(config, one.ranks().node())),
        memory(train::measure_memory(config, train::Purpose::kTrain, {}, 0,
                                     train::num_threads(config, one.ranks().node()))),
        runtime(config, train::Purpose::kTrain, *device, one.ranks(), memory) {
    const data::Loader loader = train::make_training_loader(config);
    loader.load(0, 8, {.micro_sequences = config.batch.micro_sequences}, batch);
    totals = {batch.loss_tokens, batch.valid_tokens};
    runtime.initialize_parameters();
  }
  void step(std::int64_t step) { runtime.train_step(batch, totals, step, 1e-3); }

  OneRank one;
  train::Config config;
  std::unique_ptr<Device> device;
  MemoryTable memory;
  train::Runtime runtime;
  data::HostBatch batch;
  train::StepTotals totals;
};

TEST(Runtime, AStepReadsTheDeviceExactlyOnce) {
  const SmallRun small;
  Prepared prepared(small.config("reads"));
  for (std::int64_t step = 0; step < 3; ++step) {
    prepared.device->reset_transfers();
    prepared.step(step);
    prepared.runtime.read_record();
    EXPECT_EQ(prepared.device->transfers().host_reads, 1);
    EXPECT_EQ(prepared.device->transfers().staged_out, 0);
    // Eight sequences in micro-batches of three: three times four tensors.
    EXPECT_EQ(prepared.device->transfers().staged_in, 12);
  }
}

TEST(Runtime, TheMeterKnowsTheOperationsOfTheExchange) {
  const SmallRun small;
  Prepared prepared(small.config("exchange"));
  prepared.step(0);
  for (const std::string_view name : parallel::LocalExchange::kOperations) {
    const auto entries = prepared.runtime.meter().entries();
    EXPECT_TRUE(std::ranges::any_of(entries, [&](const MeterEntry& entry) {
      return entry.operation == name;
    })) << name;
  }
}

TEST(Runtime, AStepTakesNothingFromHeapOrArenas) {
  const SmallRun small;
  Prepared prepared(small.config("heap"));
  prepared.step(0);  // OpenBLAS sets itself up
  std::size_t arena_allocations = 0;
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    arena_allocations += prepared.runtime.allocations(static_cast<MemoryClass>(i)).size();
  }
  const std::int64_t before = num_allocations();
  prepared.step(1);
  EXPECT_EQ(num_allocations(), before);
  std::size_t after = 0;
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    after += prepared.runtime.allocations(static_cast<MemoryClass>(i)).size();
  }
  EXPECT_EQ(after, arena_allocations);
  // The counter counts.
  const auto number = std::make_unique<int>(1);
  EXPECT_EQ(num_allocations(), before + *number);
}

TEST(Runtime, UsesExactlyTheMemoryThatTheMetaRunMeasured) {
  const SmallRun small;
  const std::vector<std::string> olmo3 = {"model.family=olmo3_moe", "model.ffn_hidden=48",
                                          "moe.shared_hidden=8"};
  for (const auto& family : {std::vector<std::string>{}, olmo3}) {
    Prepared prepared(small.config("memory", family));
    for (std::int64_t step = 0; step < 2; ++step) {
      prepared.step(step);
      prepared.runtime.evaluate(prepared.batch, 0, 1.0);
      EXPECT_EQ(prepared.runtime.used().bytes, prepared.memory.bytes) << family.size();
    }
  }
}

struct StepGradients {
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<std::int64_t>> counts;  ///< of experts, layer by layer
};

StepGradients gradients_of(const train::Config& config) {
  Prepared prepared(config);
  prepared.runtime.accumulate_gradients(prepared.batch, prepared.totals, 0);
  StepGradients result;
  for (const nn::Parameter& parameter : prepared.runtime.language_model().parameters().all()) {
    result.names.push_back(parameter.name);
    result.values.emplace_back(static_cast<std::size_t>(parameter.grad.numel()));
    prepared.device->copy_to_host(std::span(result.values.back()), parameter.grad);
  }
  result.counts = prepared.runtime.read_record().counts;
  return result;
}

double norm_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values)
    sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

/// Micro-batches of 1, 2 and 4 sequences give the same gradients: every tensor to 1e-5 of its norm
/// in f32. Under `routing=random` the expert ids are those of the first run by construction; under
/// `learned` equal counts of every expert show that no near tie tipped over.
TEST(Runtime, MicroBatchesAgreeInSinglePrecision) {
  const SmallRun small;
  for (const char* routing : {"moe.routing=random", "moe.routing=learned"}) {
    std::vector<StepGradients> runs;
    for (const char* micro :
         {"batch.micro_sequences=1", "batch.micro_sequences=2", "batch.micro_sequences=4"}) {
      runs.push_back(
          gradients_of(small.config("micro", {micro, routing, "moe.balance_scope=sequence"})));
    }
    for (std::size_t run = 1; run < runs.size(); ++run) {
      ASSERT_EQ(runs[run].counts, runs[0].counts) << routing;
      for (std::size_t i = 0; i < runs[0].values.size(); ++i) {
        std::vector<float> difference = runs[run].values[i];
        for (std::size_t j = 0; j < difference.size(); ++j)
          difference[j] -= runs[0].values[i][j];
        EXPECT_LE(norm_of(difference), 1e-5 * norm_of(runs[0].values[i]))
            << runs[0].names[i] << ", " << routing;
      }
    }
  }
}

}  // namespace
}  // namespace ulmus::test
