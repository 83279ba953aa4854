#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ulmus/device/arena.h"
#include "ulmus/device/exec_context.h"
#include "ulmus/model/language_model.h"
#include "ulmus/parallel/local_exchange.h"

namespace ulmus::test {

/// Host side of one micro-batch.
struct HostTokens {
  std::int64_t num_sequences = 0;
  std::int64_t sequence_length = 0;
  std::vector<std::int32_t> tokens{};
  std::vector<std::int32_t> targets{};
  std::vector<std::int32_t> first_key{};
  std::vector<std::uint8_t> valid{};

  std::int64_t loss_tokens() const;
  std::int64_t valid_tokens() const;
  /// Sequences [begin, end).
  HostTokens sequences(std::int64_t begin, std::int64_t end) const;
};

/// Random tokens of a vocabulary; with `documents`, each sequence holds two documents and three
/// padding tokens.
HostTokens random_tokens(std::int64_t num_sequences, std::int64_t sequence_length,
                         std::int64_t vocab, std::uint64_t seed, bool documents);

/// A model with memory on a CPU device, in f64 on the oracle or f32 on the fast kernels.
class ModelHarness {
 public:
  ModelHarness(const model::ModelConfig& config, Backend backend, std::int64_t max_sequences,
               std::int64_t sequence_length, int num_threads = 1, double head_z_loss = 0.0,
               std::uint64_t seed = 1);

  /// Uploads the tokens. The view lives until the next call.
  nn::Batch upload(const HostTokens& tokens);
  nn::StepScale scale_of(const HostTokens& step) const;

  /// Zeroes gradients and record, runs the step in micro-batches, returns the record.
  const model::StepRecord::Host& step(const HostTokens& step, std::int64_t micro_sequences);
  /// The objective of design law 1: cross-entropy, head z, balance and z of every layer.
  double objective(const HostTokens& step, std::int64_t micro_sequences);
  double objective_of(const model::StepRecord::Host& record, double routed_tokens) const;

  std::vector<double> read(ConstTensorView view);
  void write(TensorView view, const std::vector<double>& values);
  std::map<std::string, std::vector<double>> gradients();
  /// Logits [n, V] of rows [begin, begin + n) of a batch.
  std::vector<double> logits(const HostTokens& tokens, std::int64_t begin, std::int64_t n);

  ExecContext context() { return {*device, *workspace, meter}; }

  model::ModelConfig config;
  std::unique_ptr<Device> device;
  Meter meter;
  std::unique_ptr<Arena> values;
  std::unique_ptr<Arena> grads;
  std::unique_ptr<Arena> activations_arena;
  std::unique_ptr<Workspace> workspace;
  parallel::LocalExchange exchange;
  std::unique_ptr<nn::ArenaMemory> memory;
  std::unique_ptr<nn::ParameterSet> parameters;
  std::unique_ptr<model::LanguageModel> model;
  std::unique_ptr<model::StepRecord> record;
  model::StepRecord::Host host;
  model::LanguageModel::Activations activations;

 private:
  TensorView tokens_;
  TensorView targets_;
  TensorView first_key_;
  TensorView positions_;
  TensorView valid_;
  double head_z_loss_;
};

/// Small models that between them switch on every part of a block.
model::ModelConfig tiny_olmoe();
model::ModelConfig tiny_olmo3_moe();

}  // namespace ulmus::test
