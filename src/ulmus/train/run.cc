#include "ulmus/train/run.h"

#include "ulmus/comm/agreement.h"
#include "ulmus/train/layout.h"
#include "ulmus/train/measure.h"
#include "ulmus/train/memory.h"
#include "ulmus/train/token_data.h"
#include "ulmus/train/trainer.h"

namespace ulmus::train {

DryRun dry_run(const Config& config, comm::World& world) {
  const optim::Plan plan = make_plan(config);
  const parallel::Ranks ranks(world, layout_of(config, world));
  const int threads = num_threads(config, ranks.node());
  const std::int64_t sequences = plan.max_batch_sequences();
  return {.layout = ranks.layout(),
          .parameters = parameters_of(config),
          .memory = measure_memory(config, Purpose::kTrain, ranks.layout(), world.rank(), threads),
          .useful_flops_per_token = useful_flops_per_token(config),
          .steps = plan.num_steps(),
          .micro_batches =
              (sequences + config.batch.micro_sequences - 1) / config.batch.micro_sequences,
          .threads = threads};
}

TrainResult run_training(const Config& config, const StopFlag& stop, Reporter& reporter,
                         comm::World& world) {
  Trainer trainer(config, stop, reporter, world);
  return trainer.run();
}

EvalResult evaluate_checkpoint(const Config& config, const std::filesystem::path& checkpoint,
                               Reporter& reporter, comm::World& world) {
  const parallel::Ranks ranks(world, layout_of(config, world));
  const std::unique_ptr<Device> device = make_device(config, ranks.node());
  Evaluator evaluator(config, device->pool(), ranks);
  const MemoryTable memory = measure_within_budget(config, Purpose::kEvaluate, ranks);
  Runtime runtime(config, Purpose::kEvaluate, *device, ranks, memory);
  const std::string differences =
      load_for_evaluation(checkpoint, config, tokenizer_fingerprint(config), weight_refs(runtime),
                          runtime.language_model(), *device, world.all());
  runtime.parameter_store().publish_weights();
  if (!differences.empty()) {
    reporter.warning("the model differs from that of the checkpoint: " + differences);
  }
  reporter.info(concat("weights of ", checkpoint.string(), ", ", evaluator.num_sequences(),
                       " held-out sequences"));
  return evaluator.run(runtime);
}

}  // namespace ulmus::train
