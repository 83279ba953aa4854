#include "ulmus/train/runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/train/small_run.h"
#include "ulmus/train/trainer.h"

namespace {

// Counts what this program takes from the heap while it is told to.
std::atomic<bool> counting{false};         // NOLINT: the interposed allocator has no other home
std::atomic<std::int64_t> allocations{0};  // NOLINT

}  // namespace

// NOLINTBEGIN: replacements of the global allocation functions; inlined, g++ takes new and free for
// a mismatched pair
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND

namespace ulmus::test {
namespace {

struct Prepared {
  explicit Prepared(const train::Config& run_config)
      : config(run_config),
        device(train::make_device(config)),
        memory(train::measure_memory(config, train::Purpose::kTrain, train::num_threads(config))),
        runtime(config, train::Purpose::kTrain, *device, memory) {
    const data::Loader loader = train::make_training_loader(config, device->pool());
    loader.load(0, 8, batch);
    runtime.initialize_parameters();
  }
  train::Config config;
  std::unique_ptr<Device> device;
  MemoryTable memory;
  train::Runtime runtime;
  data::HostBatch batch;
};

TEST(Runtime, AStepReadsTheDeviceExactlyOnce) {
  const SmallRun small;
  Prepared prepared(small.config("reads"));
  for (std::int64_t step = 0; step < 3; ++step) {
    prepared.device->reset_transfers();
    prepared.runtime.train_step(prepared.batch, step, 1e-3);
    prepared.runtime.read_record();
    EXPECT_EQ(prepared.device->transfers().host_reads, 1);
    EXPECT_EQ(prepared.device->transfers().staged_out, 0);
    // Eight sequences in micro-batches of three: three times four tensors.
    EXPECT_EQ(prepared.device->transfers().staged_in, 12);
  }
}

TEST(Runtime, AStepTakesNothingFromHeapOrArenas) {
  const SmallRun small;
  Prepared prepared(small.config("heap"));
  prepared.runtime.train_step(prepared.batch, 0, 1e-3);  // OpenBLAS sets itself up
  std::size_t arena_allocations = 0;
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    arena_allocations += prepared.runtime.allocations(static_cast<MemoryClass>(i)).size();
  }
  allocations = 0;
  counting = true;
  prepared.runtime.train_step(prepared.batch, 1, 1e-3);
  counting = false;
  EXPECT_EQ(allocations.load(), 0);
  std::size_t after = 0;
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    after += prepared.runtime.allocations(static_cast<MemoryClass>(i)).size();
  }
  EXPECT_EQ(after, arena_allocations);
  // The counter counts.
  counting = true;
  const auto number = std::make_unique<int>(1);
  counting = false;
  EXPECT_EQ(allocations.load(), *number);
}

TEST(Runtime, UsesExactlyTheMemoryThatTheMetaRunMeasured) {
  const SmallRun small;
  const std::vector<std::string> olmo3 = {"model.family=olmo3_moe", "model.ffn_hidden=48",
                                          "moe.shared_hidden=8"};
  for (const auto& family : {std::vector<std::string>{}, olmo3}) {
    Prepared prepared(small.config("memory", family));
    for (std::int64_t step = 0; step < 2; ++step) {
      prepared.runtime.train_step(prepared.batch, step, 1e-3);
      prepared.runtime.evaluate(prepared.batch, 1.0);
      EXPECT_EQ(prepared.runtime.used().bytes, prepared.memory.bytes) << family.size();
    }
  }
}

/// Gradients of one step in f32: micro-batches of 1, 2 and 4 sequences agree to 1e-5 of the norm.
TEST(Runtime, MicroBatchesAgreeInSinglePrecision) {
  const SmallRun small;
  std::vector<double> norms;
  std::vector<std::vector<std::vector<std::int64_t>>> counts;
  for (const char* micro :
       {"batch.micro_sequences=1", "batch.micro_sequences=2", "batch.micro_sequences=4"}) {
    Prepared prepared(small.config("micro", {micro, "moe.balance_scope=sequence"}));
    prepared.runtime.train_step(prepared.batch, 0, 1e-3);
    const auto& record = prepared.runtime.read_record();
    norms.push_back(record.gate_field(ops::GateField::kNorm));
    counts.push_back(record.counts);
  }
  for (std::size_t i = 1; i < norms.size(); ++i) {
    EXPECT_NEAR(norms[i], norms[0], 1e-5 * norms[0]);
    EXPECT_EQ(counts[i], counts[0]);
  }
}

}  // namespace
}  // namespace ulmus::test
