#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ulmus/data/loader.h"
#include "ulmus/device/arena.h"
#include "ulmus/device/exec_context.h"
#include "ulmus/model/language_model.h"
#include "ulmus/optim/optimizer.h"
#include "ulmus/parallel/local_exchange.h"
#include "ulmus/train/batch_buffers.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// What a runtime is built for: memory differs.
enum class Purpose : std::uint8_t {
  kTrain,     ///< gradients, optimizer, activations of all blocks
  kEvaluate,  ///< weights and one block's activations
};

/// A model with all its memory on one device. Nothing is allocated after construction.
class Runtime {
 public:
  /// `capacity` by class; unbounded(n) on a meta device. `device` outlives this.
  Runtime(const Config& config, Purpose purpose, Device& device, const MemoryTable& capacity);
  static MemoryTable unbounded();

  /// Initial weights, a pure function of run.seed.
  void initialize_parameters();

  /// One optimizer step over the sequences of `batch`, in micro-batches of `micro_sequences`; the
  /// record then tells what happened.
  void train_step(const data::HostBatch& batch, std::int64_t step, double lr);
  /// Its first half, without the update: gradients and record only.
  void accumulate_gradients(const data::HostBatch& batch, std::int64_t step);
  /// Adds the loss of all sequences of `batch` to the record, divided by `loss_tokens`.
  /// `first_sequence`: index of the batch's first one in the order of the evaluation.
  void evaluate(const data::HostBatch& batch, std::int64_t first_sequence, double loss_tokens);
  void clear_record() { record_.clear(context()); }
  /// The one host read of a step.
  const model::StepRecord::Host& read_record();

  ExecContext context() { return {.device = device_, .workspace = workspace_, .meter = meter_}; }
  const model::LanguageModel& language_model() const { return model_; }
  const model::StepRecord& record() const { return record_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  Device& device() { return device_; }
  Meter& meter() { return meter_; }
  Workspace& workspace() { return workspace_; }
  /// Bytes in use by class; of the workspace the high-water mark.
  MemoryTable used() const;
  /// Every named allocation of a class.
  const std::vector<Allocation>& allocations(MemoryClass memory_class) const;

 private:
  Arena& arena(MemoryClass memory_class) {
    return *arenas_[static_cast<std::size_t>(memory_class)];
  }
  nn::StepScale scale_of(const data::HostBatch& batch, std::int64_t step) const;
  void end_step(double lr);

  Device& device_;
  Meter meter_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  Workspace workspace_;
  parallel::LocalExchange exchange_;
  nn::ParameterSet parameters_;
  model::LanguageModel model_;
  model::StepRecord record_;
  model::StepRecord::Host host_record_;
  BatchBuffers buffers_;
  model::LanguageModel::Activations activations_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::int64_t micro_sequences_;
  double bias_update_;
};

/// Memory that a runtime of this configuration takes: its own steps, run on a meta device.
MemoryTable measure_memory(const Config& config, Purpose purpose, int num_threads);

/// Threads of the run: device.threads, or all the process may use.
int num_threads(const Config& config);

/// The machine's processor as the configuration asks for it.
std::unique_ptr<Device> make_device(const Config& config);

/// Useful floating-point operations of one token, forward and backward, at full sequences.
double useful_flops_per_token(const Config& config);

}  // namespace ulmus::train
