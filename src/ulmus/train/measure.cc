#include "ulmus/train/measure.h"

#include "ulmus/comm/agreement.h"
#include "ulmus/comm/meta/meta_transport.h"
#include "ulmus/train/checkpointing.h"
#include "ulmus/train/memory.h"
#include "ulmus/train/runtime.h"
#include "ulmus/train/step_trace.h"

namespace ulmus::train {

namespace {

/// A batch of `num_sequences` whole sequences, for runs that compute nothing.
data::HostBatch blank_batch(std::int64_t num_sequences, std::int64_t sequence_length) {
  const auto n = static_cast<std::size_t>(num_sequences * sequence_length);
  data::HostBatch batch;
  batch.num_sequences = num_sequences;
  batch.micro_batches = {{.first_sequence = 0, .num_sequences = num_sequences}};
  batch.sequence_length = sequence_length;
  batch.tokens.assign(n, 0);
  batch.targets.assign(n, 0);
  batch.document_begin.assign(n, 0);
  batch.valid.assign(n, 1);
  batch.loss_tokens = static_cast<std::int64_t>(n);
  batch.valid_tokens = static_cast<std::int64_t>(n);
  return batch;
}

/// Ranks of a layout that exist on paper only.
class PaperRanks {
 public:
  PaperRanks(const parallel::Layout& layout, int rank)
      : world_(std::make_unique<comm::MetaTransport>(rank, layout.ranks), {}),
        ranks_(world_, layout) {}
  const parallel::Ranks& ranks() const { return ranks_; }

 private:
  comm::World world_;
  parallel::Ranks ranks_;
};

StepTotals totals_of(const data::HostBatch& batch) {
  return {.loss_tokens = batch.loss_tokens, .valid_tokens = batch.valid_tokens};
}

/// The same training on one rank.
Config alone(const Config& config) {
  Config one = config;
  one.parallel = {};
  return one;
}

}  // namespace

MemoryTable measure_memory(const Config& config, Purpose purpose, const parallel::Layout& layout,
                           int rank, int threads) {
  const std::unique_ptr<Device> meta = make_meta_device(threads);
  const PaperRanks paper(layout, rank);
  Runtime runtime(config, purpose, *meta, paper.ranks(), Runtime::unbounded());
  const data::HostBatch batch =
      blank_batch(config.batch.micro_sequences, config.data.sequence_length);
  runtime.initialize_parameters();
  if (purpose == Purpose::kTrain) runtime.train_step(batch, totals_of(batch), 1, 0.0);
  runtime.evaluate(batch, 0, 1.0);
  MemoryTable memory = runtime.used();
  if (purpose == Purpose::kTrain) {
    memory.staging_bytes = staging_bytes(config, runtime) + StepTrace::bytes(config.run.trace);
  }
  return memory;
}

MemoryTable measure_within_budget(const Config& config, Purpose purpose,
                                  const parallel::Ranks& ranks) {
  MemoryTable memory;
  comm::agree(ranks.world().all(), [&] {
    memory = measure_memory(config, purpose, ranks.layout(), ranks.world().rank(),
                            num_threads(config, ranks.node()));
    check_budget(config, memory, ranks.node().ranks,
                 "smaller batch.micro_sequences, data.sequence_length or memory.head_chunk help");
  });
  return memory;
}

model::ParameterCounts parameters_of(const Config& config) {
  const std::unique_ptr<Device> meta = make_meta_device(1);
  const PaperRanks paper({}, 0);
  const Runtime runtime(alone(config), Purpose::kEvaluate, *meta, paper.ranks(),
                        Runtime::unbounded());
  return model::count_parameters(runtime.language_model().parameters(), config.model);
}

double useful_flops_per_token(const Config& config) {
  const std::unique_ptr<Device> meta = make_meta_device(1);
  const PaperRanks paper({}, 0);
  Runtime runtime(alone(config), Purpose::kTrain, *meta, paper.ranks(), Runtime::unbounded());
  const data::HostBatch batch =
      blank_batch(config.batch.micro_sequences, config.data.sequence_length);
  runtime.meter().reset();
  runtime.train_step(batch, totals_of(batch), 1, 0.0);
  return runtime.meter().useful_flops() / static_cast<double>(batch.valid_tokens);
}

}  // namespace ulmus::train
