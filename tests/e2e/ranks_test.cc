#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/allocation_counter.h"
#include "tests/support/message_of.h"
#include "tests/support/tolerance.h"
#include "tests/train/small_run.h"
#include "ulmus/base/file.h"
#include "ulmus/checkpoint/checkpoint.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/parallel/parameter_buckets.h"
#include "ulmus/train/layout.h"
#include "ulmus/train/measure.h"
#include "ulmus/train/parity_batch.h"
#include "ulmus/train/runtime.h"

namespace ulmus::test {
namespace {

using ::testing::HasSubstr;

/// Where the parameters live.
enum class Params { kResident, kResharded, kStepwise, kPrefetched };

/// A layout of the small run.
struct Ranks {
  int ranks;
  int expert;
  Params params = Params::kResident;

  std::string name() const {
    std::string text = concat(ranks, " ranks");
    for (const std::string& key : keys())
      text += " " + key;
    return text;
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys = {concat("parallel.expert=", expert)};
    if (params != Params::kResident) keys.emplace_back("parallel.params=resharded");
    if (params == Params::kStepwise) keys.emplace_back("parallel.reshard=step");
    if (params == Params::kPrefetched) keys.emplace_back("parallel.prefetch=true");
    return keys;
  }
  /// These keys and others, for one thread a rank.
  std::vector<std::string> with(std::vector<std::string> others) const {
    for (const std::string& key : keys())
      others.push_back(key);
    others.emplace_back("device.threads=1");
    return others;
  }
};
constexpr Ranks kLayouts[] = {{1, 1},
                              {2, 1},
                              {2, 2},
                              {3, 1},
                              {4, 1},
                              {4, 2},
                              {4, 4},
                              {1, 1, Params::kResharded},
                              {2, 2, Params::kPrefetched},
                              {3, 1, Params::kStepwise},
                              {4, 2, Params::kResharded}};

/// Trains on threads; the result of rank 0.
train::TrainResult train_on(const Ranks& layout, const SmallRun& small, const std::string& name,
                            const std::vector<std::string>& overrides) {
  const train::Config config = small.config(name, layout.with(overrides));
  train::TrainResult result;
  comm::run_thread_ranks(layout.ranks, {}, [&](comm::World& world) {
    QuietReporter reporter;
    const train::TrainResult mine = train::run_training(config, reporter.stop, reporter, world);
    if (world.rank() == 0) result = mine;
  });
  return result;
}

std::vector<double> losses_of(const SmallRun& small, const std::string& name) {
  return metric_of(small.folder() / name, "loss/ce");
}

TEST(Ranks, TheInitialCheckpointIsTheSameUnderEveryLayout) {
  const SmallRun small;
  std::map<std::string, std::string> first;
  for (const Ranks& layout : kLayouts) {
    SCOPED_TRACE(layout.name());
    const auto result = train_on(layout, small, layout.name(), {"run.max_steps=0"});
    const auto bytes = checkpoint_bytes(result.checkpoint);
    if (first.empty()) first = bytes;
    ASSERT_TRUE(bytes == first);
  }
}

/// Load X, which one rank trained, under every layout; save; compare byte by byte. All that a
/// checkpoint holds has been through training: moments, windows, counts, biases.
TEST(Ranks, ACheckpointIsTheSameAfterLoadingAndSavingUnderEveryLayout) {
  const SmallRun small;
  for (const Ranks& source : {Ranks{1, 1}, Ranks{4, 2}, Ranks{3, 1, Params::kResharded}}) {
    const auto trained = train_on(source, small, concat("source", source.ranks),
                                  {"run.max_steps=5", "eval.every=0"});
    const auto expected = checkpoint_bytes(trained.checkpoint);
    for (const Ranks& layout : kLayouts) {
      SCOPED_TRACE(layout.name());
      const train::Config config =
          small.config(concat("source", source.ranks), layout.with({"run.max_steps=5"}));
      const auto target = small.folder() / "saved" / concat(source.ranks, " ", layout.name());
      comm::run_thread_ranks(layout.ranks, {}, [&](comm::World& world) {
        LoadedRun loaded(config, world);
        const train::RunPosition position = loaded.checkpointing.resume(trained.checkpoint);
        EXPECT_EQ(position.step, 5);
        loaded.save(target, position);
      });
      EXPECT_TRUE(checkpoint_bytes(checkpoint::newest(target / "checkpoints")->path) == expected);
    }
  }
}

TEST(Ranks, LossesAreThoseOfOneRank) {
  const SmallRun small;
  train_on({1, 1}, small, "one", {"run.max_steps=12"});
  const std::vector<double> expected = losses_of(small, "one");
  ASSERT_EQ(expected.size(), 12U);
  for (const Ranks& layout : kLayouts) {
    SCOPED_TRACE(layout.name());
    train_on(layout, small, layout.name(), {"run.max_steps=12"});
    const std::vector<double> losses = losses_of(small, layout.name());
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], kTrainedF32.relative * expected[i]) << "step " << i + 1;
  }
}

TEST(Ranks, OneLayoutGivesTheSameBitsTwice) {
  const SmallRun small;
  for (const Ranks& layout : {Ranks{4, 2}, Ranks{4, 2, Params::kPrefetched}}) {
    SCOPED_TRACE(layout.name());
    const auto run = [&](const std::string& name) {
      return train_on(layout, small, name + layout.name(), {"run.max_steps=6"});
    };
    const auto first = run("first ");
    const auto second = run("second ");
    EXPECT_TRUE(checkpoint_bytes(first.checkpoint) == checkpoint_bytes(second.checkpoint));
    EXPECT_EQ(metrics_without_times(small.folder() / ("first " + layout.name())),
              metrics_without_times(small.folder() / ("second " + layout.name())));
  }
}

/// When weights are gathered, and how long they stay, changes no bit.
TEST(Ranks, EveryWayToReshardGivesTheSameBits) {
  const SmallRun small;
  const auto run = [&](Params params) {
    const Ranks layout = {4, 2, params};
    return checkpoint_bytes(train_on(layout, small, layout.name(), {"run.max_steps=6"}).checkpoint);
  };
  const auto expected = run(Params::kResharded);
  EXPECT_TRUE(run(Params::kStepwise) == expected);
  EXPECT_TRUE(run(Params::kPrefetched) == expected);
}

TEST(Ranks, ARunGoesOnUnderOtherLayouts) {
  const SmallRun small;
  const auto until = [](int steps) {
    return std::vector<std::string>{concat("run.max_steps=", steps), "optim.schedule=constant"};
  };
  train_on({1, 1}, small, "unbroken", until(16));
  train_on({4, 2}, small, "moving", until(4));
  train_on({3, 1}, small, "moving", until(8));
  train_on({1, 1}, small, "moving", until(12));
  train_on({2, 2, Params::kResharded}, small, "moving", until(16));
  const std::vector<double> expected = losses_of(small, "unbroken");
  const std::vector<double> losses = losses_of(small, "moving");
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], kTrainedF32.relative * expected[i]) << "step " << i + 1;
}

TEST(Ranks, StoppedAndContinuedUnderOneLayoutEqualsUnbroken) {
  const SmallRun small;
  for (const Ranks& layout : {Ranks{2, 2}, Ranks{2, 2, Params::kPrefetched}}) {
    SCOPED_TRACE(layout.name());
    const auto until = [&](const std::string& name, int steps) {
      return train_on(layout, small, name + layout.name(), {concat("run.max_steps=", steps)});
    };
    const auto unbroken = until("whole ", 8);
    until("parts ", 3);
    const auto parts = until("parts ", 8);
    EXPECT_TRUE(checkpoint_bytes(unbroken.checkpoint) == checkpoint_bytes(parts.checkpoint));
  }
}

/// Saving behind training changes nothing that is trained, and nothing that is saved.
TEST(Ranks, SavedBehindTrainingEqualsSavedAtOnce) {
  const SmallRun small;
  for (const Ranks& layout :
       {Ranks{1, 1}, Ranks{3, 1}, Ranks{4, 2}, Ranks{4, 2, Params::kResharded}}) {
    SCOPED_TRACE(layout.name());
    const auto run = [&](const std::string& name, const std::string& async) {
      train_on(layout, small, name + layout.name(),
               {"run.max_steps=12", "checkpoint.every=3", "checkpoint.keep=9",
                "checkpoint.async=" + async});
      return checkpoint::list(small.folder() / (name + layout.name()) / "checkpoints");
    };
    const auto at_once = run("at once ", "false");
    const auto behind = run("behind ", "true");
    ASSERT_EQ(behind.size(), 4U);
    ASSERT_EQ(at_once.size(), 4U);
    for (std::size_t i = 0; i < behind.size(); ++i)
      EXPECT_TRUE(checkpoint_bytes(behind[i].path) == checkpoint_bytes(at_once[i].path));
    const auto unsaved =
        train_on(layout, small, "unsaved " + layout.name(), {"run.max_steps=12"}).checkpoint;
    EXPECT_TRUE(checkpoint_bytes(behind.back().path) == checkpoint_bytes(unsaved));
  }
}

TEST(Ranks, HeldOutLossIsTheSameUnderEveryLayout) {
  const SmallRun small;
  const auto trained = train_on({1, 1}, small, "eval", {"run.max_steps=3"});
  std::vector<double> losses;
  for (const Ranks& layout : kLayouts) {
    const train::Config config = small.config("eval", layout.with({}));
    train::EvalResult result;
    comm::run_thread_ranks(layout.ranks, {}, [&](comm::World& world) {
      QuietReporter reporter;
      const auto mine = train::evaluate_checkpoint(config, trained.checkpoint, reporter, world);
      if (world.rank() == 0) result = mine;
    });
    losses.push_back(result.loss);
    EXPECT_EQ(result.text_bytes, 5999) << layout.name();
  }
  for (const double loss : losses)
    EXPECT_NEAR(loss, losses.front(), kLossF32.relative * losses.front());
}

TEST(Ranks, ASignalOnOneRankStopsAllAfterTheSameStep) {
  const SmallRun small;
  const train::Config config = small.config("signal", {"device.threads=1"});
  std::vector<train::TrainResult> results(3);
  comm::run_thread_ranks(3, {}, [&](comm::World& world) {
    QuietReporter reporter;
    if (world.rank() == 2) reporter.stop_at_step = 4;
    results[static_cast<std::size_t>(world.rank())] =
        train::run_training(config, reporter.stop, reporter, world);
  });
  for (const train::TrainResult& result : results) {
    EXPECT_EQ(result.step, 4);
    EXPECT_EQ(result.signal, SIGTERM);
  }
  EXPECT_EQ(checkpoint::newest(small.folder() / "signal" / "checkpoints")->step, 4);
}

TEST(Ranks, EveryRankKeepsALog) {
  const SmallRun small;
  train_on({2, 1}, small, "logs", {"run.max_steps=2"});
  for (const char* name : {"rank-0000.txt", "rank-0001.txt"})
    EXPECT_THAT(read_file(small.folder() / "logs" / "log" / name), HasSubstr("done at step 2"));
}

TEST(Ranks, LayoutsThatDoNotFitAreRefusedByKey) {
  const SmallRun small;
  const auto refusal = [&](int ranks, const std::vector<std::string>& keys) {
    return message_of([&] { train::layout_of(small.config("refused", keys), ranks); });
  };
  EXPECT_THAT(refusal(3, {"parallel.expert=2"}), HasSubstr("parallel.expert = 2"));
  EXPECT_THAT(refusal(3, {"parallel.expert=3"}), HasSubstr("moe.experts = 8"));
  EXPECT_THAT(refusal(2, {"parallel.expert=2", "parallel.exchange=local"}),
              HasSubstr("parallel.exchange = \"local\""));
  EXPECT_EQ(refusal(2, {"parallel.expert=2"}), "");
}

/// Events of trace.json that have a duration; times in microseconds.
struct Traced {
  std::string name;
  int rank;
  std::string group;  ///< or ""
  std::int64_t number;
  double begin;
};

std::vector<Traced> read_trace(const std::filesystem::path& path) {
  const nlohmann::json trace = nlohmann::json::parse(read_file(path));
  std::vector<Traced> events;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" && event.at("ph") != "b") continue;
    EXPECT_GE(event.at("ts").get<double>(), 0.0);
    EXPECT_GE(event.value("dur", 0.0), 0.0);
    const nlohmann::json& args = event.at("args");
    events.push_back({event.at("name"), event.at("pid"), args.value("group", ""),
                      args.at("number").get<std::int64_t>(), event.at("ts").get<double>()});
  }
  EXPECT_EQ(trace.at("otherData").at("dropped_events"), 0);
  return events;
}

TEST(Ranks, ATraceHoldsTheWantedStepsOfEveryRank) {
  const SmallRun small;
  train_on({2, 2}, small, "traced", {"run.max_steps=4", "run.trace=[2, 4]"});
  for (const int rank : {0, 1}) {
    std::set<std::int64_t> steps;
    std::set<std::string> names;
    std::set<std::string> reduced;  // the groups that sum gradients
    for (const Traced& event : read_trace(small.folder() / "traced" / "trace.json")) {
      if (event.rank != rank) continue;
      names.insert(event.name);
      if (event.name == "step") steps.insert(event.number);
      if (event.name == "reduce_scatter") reduced.insert(event.group);
    }
    EXPECT_EQ(steps, (std::set<std::int64_t>{2, 4}));
    EXPECT_EQ(reduced, (std::set<std::string>{"dense", "expert_replica"}));
    for (const char* name : {"data", "gather_rows", "grouped_matmul", "all_to_all", "all_gather"})
      EXPECT_TRUE(names.contains(name)) << name;
  }
}

/// The first sums of gradients start while layers are still to go backward, under every way to
/// keep parameters.
TEST(Ranks, GradientsAreSummedBehindTheBackwardPass) {
  const SmallRun small;
  for (const Params params : {Params::kResident, Params::kResharded, Params::kPrefetched}) {
    const Ranks layout = {2, 2, params};
    train_on(layout, small, layout.name(), {"run.max_steps=2", "run.trace=[2]"});
    double first_sum = HUGE_VAL;
    double last_matmul = 0.0;
    for (const Traced& event : read_trace(small.folder() / layout.name() / "trace.json")) {
      if (event.rank != 0) continue;
      if (event.name == "reduce_scatter") first_sum = std::min(first_sum, event.begin);
      if (event.name == "grouped_matmul") last_matmul = std::max(last_matmul, event.begin);
    }
    EXPECT_LT(first_sum, last_matmul) << layout.name();
  }
}

/// A trace is written when its last step has ended, and not at the price of a checkpoint.
TEST(Ranks, ATraceThatCannotBeWrittenCostsNothingElse) {
  const SmallRun small;
  std::filesystem::create_directories(small.folder() / "blocked" / "trace.json" / "in the way");
  const auto result = train_on({2, 1}, small, "blocked", {"run.max_steps=3", "run.trace=[2]"});
  EXPECT_EQ(result.step, 3);
  EXPECT_TRUE(checkpoint::verify(result.checkpoint).is_good());
  EXPECT_THAT(read_file(small.folder() / "blocked" / "log" / "rank-0000.txt"),
              HasSubstr("no trace: "));
}

TEST(Ranks, ATraceChangesNothingThatIsTrained) {
  const SmallRun small;
  const auto plain = train_on({2, 1}, small, "plain", {"run.max_steps=3"});
  const auto traced = train_on({2, 1}, small, "traced", {"run.max_steps=3", "run.trace=[1, 2]"});
  EXPECT_TRUE(checkpoint_bytes(plain.checkpoint) == checkpoint_bytes(traced.checkpoint));
  EXPECT_FALSE(std::filesystem::exists(small.folder() / "plain" / "trace.json"));
}

TEST(Ranks, AStepBeyondTheRunIsNotTraced) {
  const SmallRun small;
  EXPECT_THAT(
      message_of([&] { train_on({1, 1}, small, "beyond", {"run.max_steps=3", "run.trace=[4]"}); }),
      HasSubstr("run.trace: step 4 of a run of 3 steps"));
}

/// Runtimes of all ranks of a layout, one step after the other.
void step_on(const Ranks& layout, const train::Config& config,
             const std::function<void(train::Runtime&, const MemoryTable&, comm::World&)>& check) {
  comm::run_thread_ranks(layout.ranks, {}, [&](comm::World& world) {
    const parallel::Ranks ranks(world, train::layout_of(config, layout.ranks));
    const auto device = train::make_device(config, ranks.node());
    const MemoryTable memory =
        train::measure_memory(config, train::Purpose::kTrain, ranks.layout(), world.rank(), 1);
    train::Runtime runtime(config, train::Purpose::kTrain, *device, ranks, memory);
    runtime.initialize_parameters();
    check(runtime, memory, world);
  });
}

/// The gradients of made-up sequences.
void accumulate(train::Runtime& runtime, const train::Config& config, std::int64_t step) {
  const data::HostBatch whole = train::parity_step(config, step);
  const data::Deal deal = {.micro_sequences = config.batch.micro_sequences,
                           .rank = runtime.ranks().here().data,
                           .ranks = runtime.ranks().layout().data()};
  runtime.accumulate_gradients(train::dealt(whole, deal), {whole.loss_tokens, whole.valid_tokens},
                               step);
}

/// Makes a step on made-up sequences.
void make_step(train::Runtime& runtime, const train::Config& config, std::int64_t step) {
  accumulate(runtime, config, step);
  runtime.update(1e-3);
  runtime.read_record();
}

TEST(Ranks, EveryRankUsesExactlyTheMemoryThatItsMetaRunMeasured) {
  const SmallRun small;
  for (const Ranks& layout : kLayouts) {
    SCOPED_TRACE(layout.name());
    // Every rank has a whole micro-batch.
    const train::Config config = small.config("memory", layout.with({"batch.micro_sequences=2"}));
    step_on(layout, config, [&](train::Runtime& runtime, const MemoryTable& memory, comm::World&) {
      for (std::int64_t step = 0; step < 2; ++step) {
        make_step(runtime, config, step);
        EXPECT_EQ(runtime.used().bytes, memory.bytes);
      }
    });
  }
}

TEST(Ranks, OptimizerMemoryFallsAsOneOverTheGroup) {
  const SmallRun small;
  const std::vector<std::string> wide = {"model.d_model=96", "moe.expert_hidden=64"};
  const auto moments = [&](const Ranks& layout) {
    const train::Config config = small.config("moments", layout.with(wide));
    std::int64_t most = 0;
    for (int rank = 0; rank < layout.ranks; ++rank) {
      const MemoryTable table = train::measure_memory(
          config, train::Purpose::kTrain, train::layout_of(config, layout.ranks), rank, 1);
      most = std::max(most, table[MemoryClass::kOptimizer]);
    }
    return static_cast<double>(most);
  };
  const double one = moments({1, 1});
  // A block of 4,096 elements and two moments for each bucket, and what is not sharded.
  const double slack = 6 * 2 * 4096 * 4.0 + 64 * 1024;
  for (const Ranks& layout : {Ranks{2, 1}, Ranks{2, 2}, Ranks{4, 1}, Ranks{4, 2},
                              Ranks{4, 1, Params::kResharded}, Ranks{4, 2, Params::kResharded}}) {
    EXPECT_LT(moments(layout), one / layout.ranks + slack) << layout.name();
  }
}

/// Bytes that a rank sends of one bucket in a step: all but its own piece of the gradients, and its
/// own piece of the weights to every other rank.
std::int64_t bytes_of_bucket(const parallel::Bucket& bucket, const nn::ParameterSet& parameters,
                             const comm::Communicator& group) {
  const std::vector<std::int64_t> bounds = parallel::cut_bucket(bucket, parameters, group.size());
  const auto rank = static_cast<std::size_t>(group.rank());
  const std::int64_t own = bounds[rank + 1] - bounds[rank];
  return (bucket.numel - own + own * (group.size() - 1)) * size_of(parameters.dtype());
}

TEST(Ranks, GradientTrafficIsThatOfAReduceScatter) {
  const SmallRun small;
  for (const Ranks& layout : {Ranks{4, 1}, Ranks{4, 2}, Ranks{3, 1}, Ranks{2, 2}}) {
    SCOPED_TRACE(layout.name());
    const train::Config config = small.config("traffic", layout.with({}));
    step_on(layout, config, [&](train::Runtime& runtime, const MemoryTable&, comm::World&) {
      make_step(runtime, config, 0);
      runtime.parameter_store().finish_weights();
      const parallel::Ranks& ranks = runtime.ranks();
      ranks.dense().reset_traffic();
      ranks.replicas().reset_traffic();
      make_step(runtime, config, 1);
      runtime.parameter_store().finish_weights();
      const nn::ParameterSet& parameters = runtime.language_model().parameters();
      const parallel::FamilyGroups groups = {.dense = &ranks.dense(), .expert = &ranks.replicas()};
      std::int64_t expected = 0;
      for (const parallel::Bucket& bucket : parallel::make_buckets(parameters))
        expected += bytes_of_bucket(bucket, parameters, groups.of(bucket.family));
      const std::int64_t sent =
          ranks.dense().traffic().sent_bytes + ranks.replicas().traffic().sent_bytes;
      constexpr std::int64_t kRecordBytes = 8192;  // a hundred sums of the step's record
      EXPECT_GE(sent, expected);
      EXPECT_LE(sent, expected + kRecordBytes);
    });
  }
}

/// This rank's part of all weights.
std::vector<float> owned_weights(train::Runtime& runtime) {
  std::vector<float> values;
  for (const parallel::OwnedShare& share : runtime.parameter_store().shares()) {
    std::vector<float> part(static_cast<std::size_t>(share.value.numel()));
    runtime.device().copy_to_host(std::span(part), ConstTensorView(share.value));
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

/// Gradients that are not finite on one rank: every rank skips the step and names the same tensor.
TEST(Ranks, OneRanksNonFiniteGradientsSkipTheStepOnAll) {
  const SmallRun small;
  constexpr Ranks kLayout = {3, 1};
  const train::Config config = small.config("nonfinite", kLayout.with({}));
  step_on(kLayout, config, [&](train::Runtime& runtime, const MemoryTable&, comm::World& world) {
    make_step(runtime, config, 0);
    runtime.parameter_store().finish_weights();
    const std::vector<float> before = owned_weights(runtime);
    // One rank's copy of the last norm, which another rank owns.
    const auto& parameters = runtime.language_model().parameters().all();
    const auto found = std::ranges::find_if(
        parameters, [](const nn::Parameter& one) { return one.name == "final_norm.weight"; });
    ASSERT_NE(found, parameters.end());
    const nn::Parameter& norm = *found;
    const parallel::OwnedShare& share =
        runtime.parameter_store()
            .shares()[static_cast<std::size_t>(std::distance(parameters.begin(), found))];
    std::array<std::int64_t, 1> owner = {share.value.numel() > 0 ? world.rank() : -1};
    world.all().all_reduce(owner, comm::ReduceOp::kMax);
    if (world.rank() == (owner[0] + 1) % world.size()) {
      const std::vector<float> bad(static_cast<std::size_t>(norm.value.numel()), HUGE_VALF);
      runtime.device().copy_to_device(norm.value, std::span<const float>(bad));
    }
    make_step(runtime, config, 1);
    const model::StepRecord::Host& record = runtime.read_record();
    EXPECT_EQ(record.gate_field(ops::GateField::kReason),
              static_cast<double>(ops::GateReason::kNonfinite));
    EXPECT_EQ(record.gate_field(ops::GateField::kBadTensor), 0.0) << "the first in order";
    EXPECT_EQ(record.gate_field(ops::GateField::kCount), 1.0);
    runtime.parameter_store().finish_weights();
    EXPECT_EQ(owned_weights(runtime), before);
    make_step(runtime, config, 2);  // every rank has the owner's weights again
    EXPECT_EQ(runtime.read_record().gate_field(ops::GateField::kCount), 2.0);
  });
}

TEST(Ranks, AStepTakesNothingFromTheHeap) {
  const SmallRun small;
  for (const Params params : {Params::kResident, Params::kResharded, Params::kPrefetched}) {
    const Ranks layout = {2, 2, params};
    SCOPED_TRACE(layout.name());
    const train::Config config = small.config("heap", layout.with({}));
    step_on(layout, config, [&](train::Runtime& runtime, const MemoryTable&, comm::World& world) {
      std::vector<data::HostBatch> batches;
      const data::HostBatch whole = train::parity_step(config, 0);
      const data::Deal deal = {
          .micro_sequences = config.batch.micro_sequences, .rank = world.rank(), .ranks = 2};
      const data::HostBatch mine = train::dealt(whole, deal);
      const auto step = [&] {
        runtime.train_step(mine, {whole.loss_tokens, whole.valid_tokens}, 0, 1e-3);
        runtime.read_record();
        runtime.parameter_store().finish_weights();
      };
      for (int i = 0; i < 3; ++i)
        step();
      world.all().barrier();
      const std::int64_t before = num_allocations();
      world.all().barrier();
      step();
      world.all().barrier();
      const std::int64_t after = num_allocations();
      world.all().barrier();
      EXPECT_EQ(after, before);
    });
  }
}

}  // namespace
}  // namespace ulmus::test
