#include "ulmus/train/run.h"

#include "ulmus/train/memory.h"
#include "ulmus/train/token_data.h"
#include "ulmus/train/trainer.h"

namespace ulmus::train {

DryRun dry_run(const Config& config) {
  const optim::Plan plan = make_plan(config);
  const int threads = num_threads(config);
  const std::unique_ptr<Device> meta = make_meta_device(threads);
  const Runtime runtime(config, Purpose::kTrain, *meta, Runtime::unbounded());
  const std::int64_t sequences = plan.max_batch_sequences();
  return {
      .parameters = model::count_parameters(runtime.language_model().parameters(), config.model),
      .memory = measure_memory(config, Purpose::kTrain, threads),
      .useful_flops_per_token = useful_flops_per_token(config),
      .steps = plan.num_steps(),
      .micro_batches =
          (sequences + config.batch.micro_sequences - 1) / config.batch.micro_sequences,
      .threads = threads};
}

TrainResult run_training(const Config& config, const StopFlag& stop, Reporter& reporter) {
  Trainer trainer(config, stop, reporter);
  return trainer.run();
}

EvalResult evaluate_checkpoint(const Config& config, const std::filesystem::path& checkpoint,
                               Reporter& reporter) {
  const std::unique_ptr<Device> device = make_device(config);
  Evaluator evaluator(config, device->pool());
  const MemoryTable memory = measure_memory(config, Purpose::kEvaluate, num_threads(config));
  check_budget(config, memory, "smaller batch.micro_sequences or data.sequence_length help");
  Runtime runtime(config, Purpose::kEvaluate, *device, memory);
  const std::string differences = load_for_evaluation(
      checkpoint, config, tokenizer_fingerprint(config), runtime.language_model(), *device);
  if (!differences.empty()) {
    reporter.warning("the model differs from that of the checkpoint: " + differences);
  }
  reporter.info(concat("weights of ", checkpoint.string(), ", ", evaluator.num_sequences(),
                       " held-out sequences"));
  return evaluator.run(runtime);
}

}  // namespace ulmus::train
