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
#include "ulmus/parallel/parameter_store.h"
#include "ulmus/parallel/ranks.h"
#include "ulmus/train/batch_buffers.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// What a runtime is built for: memory differs.
enum class Purpose : std::uint8_t {
  kTrain,     ///< gradients, optimizer, activations of all blocks
  kEvaluate,  ///< weights and one block's activations
};

/// What the objective divides by (design, law 1): sums over all ranks and micro-batches of a step.
struct StepTotals {
  std::int64_t loss_tokens = 0;   ///< S_tok
  std::int64_t valid_tokens = 0;  ///< T_step
};

/// What parity and its tests change about a runtime.
struct RuntimeOptions {
  nn::RouteTape* tape = nullptr;                   ///< sees and may replace every route
  std::optional<parallel::FamilyGroups> families;  ///< instead of the layout's
};

/// This rank's part of a model, with all its memory on one device. Nothing is allocated after
/// construction. Calls that train or evaluate are collective over the ranks.
class Runtime {
 public:
  /// `capacity` by class; unbounded() on a meta device. `device` and `ranks` outlive this.
  Runtime(const Config& config, Purpose purpose, Device& device, const parallel::Ranks& ranks,
          const MemoryTable& capacity, const RuntimeOptions& options = {});
  static MemoryTable unbounded();

  /// Initial weights, a pure function of run.seed.
  void initialize_parameters();

  /// One optimizer step over the micro-batches of `batch`, this rank's part of the step; the record
  /// then tells what happened on all ranks.
  void train_step(const data::HostBatch& batch, const StepTotals& totals, std::int64_t step,
                  double lr);
  /// Its first half, without the update: owned gradients and the record are those of all ranks.
  void accumulate_gradients(const data::HostBatch& batch, const StepTotals& totals,
                            std::int64_t step);
  /// Its second half: the optimizer's update, and the router state of the next step.
  void update(double lr);
  /// Adds the loss of all sequences of `batch` to this rank's record, divided by `loss_tokens`.
  /// `first_sequence`: where the batch's sequence 0 stands in the order of the evaluation.
  void evaluate(const data::HostBatch& batch, std::int64_t first_sequence, double loss_tokens);
  void clear_record() { record_.clear(context()); }
  /// Sums the record over the ranks, after evaluate.
  void reduce_record();
  /// The one host read of a step.
  const model::StepRecord::Host& read_record();

  ExecContext context() { return {.device = device_, .workspace = workspace_, .meter = meter_}; }
  const model::LanguageModel& language_model() const { return model_; }
  const model::StepRecord& record() const { return record_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  parallel::ParameterStore& parameter_store() { return *store_; }
  const parallel::Ranks& ranks() const { return ranks_; }
  Device& device() { return device_; }
  Meter& meter() { return meter_; }
  Workspace& workspace() { return workspace_; }
  /// Bytes in use by class; of the workspace the high-water mark.
  MemoryTable used() const;
  /// Every named allocation of a class.
  const std::vector<Allocation>& allocations(MemoryClass memory_class) const;

 private:
  std::unique_ptr<parallel::ParameterStore> make_store(const ParallelConfig& config,
                                                       const parallel::FamilyGroups& groups);
  Arena& arena(MemoryClass memory_class) {
    return *arenas_[static_cast<std::size_t>(memory_class)];
  }

  Device& device_;
  const parallel::Ranks& ranks_;
  Meter meter_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  Workspace workspace_;
  std::unique_ptr<nn::TokenExchange> exchange_;
  std::unique_ptr<nn::ParameterMemory> memory_;
  nn::ParameterSet parameters_;
  model::LanguageModel model_;
  model::StepRecord record_;
  model::StepRecord::Host host_record_;
  BatchBuffers buffers_;
  model::LanguageModel::Activations activations_;
  std::unique_ptr<parallel::ParameterStore> store_;
  std::unique_ptr<comm::AllReduce> reduce_record_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  double bias_update_;
};

/// Threads of a rank: device.threads, or its share of the machine.
int num_threads(const Config& config, const comm::Node& node);

/// The machine's processor as the configuration asks for it.
std::unique_ptr<Device> make_device(const Config& config, const comm::Node& node);

}  // namespace ulmus::train
