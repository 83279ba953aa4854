#include "ulmus/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/support/message_of.h"
#include "tests/train/small_run.h"
#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/train/config_file.h"

namespace ulmus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

train::TrainResult run(const train::Config& config, std::int64_t stop_at_step = -1) {
  QuietReporter reporter;
  reporter.stop_at_step = stop_at_step;
  return train_alone(config, reporter.stop, reporter);
}

TEST(Trainer, TwoRunsWithOneSeedAreEqualButForTimes) {
  const SmallRun small;
  const std::vector<std::string> steps = {"run.max_steps=200", "run.log_every=1", "eval.every=50"};
  const auto first = run(small.config("first", steps));
  const auto second = run(small.config("second", steps));
  EXPECT_EQ(first.step, 200);
  const auto metrics = metrics_without_times(small.folder() / "first");
  EXPECT_EQ(metrics.size(), 200U);
  EXPECT_EQ(metrics, metrics_without_times(small.folder() / "second"));
  EXPECT_EQ(checkpoint_bytes(first.checkpoint), checkpoint_bytes(second.checkpoint));
  const auto begin = nlohmann::json::parse(metrics.front());
  const auto end = nlohmann::json::parse(metrics.back());
  // Uniform guessing costs ln 320 = 5.77 nats; a model that learns goes well below.
  EXPECT_GT(begin["loss/ce"].get<double>(), 5.5);
  EXPECT_LT(end["loss/ce"].get<double>(), 5.0);
}

TEST(Trainer, AnotherSeedGivesAnotherRun) {
  const SmallRun small;
  run(small.config("a", {"run.max_steps=2"}));
  run(small.config("b", {"run.max_steps=2", "run.seed=4"}));
  EXPECT_NE(metrics_without_times(small.folder() / "a"),
            metrics_without_times(small.folder() / "b"));
}

TEST(Trainer, StoppedAndContinuedEqualsUnbroken) {
  const SmallRun small;
  const auto whole = run(small.config("whole"));
  const auto stopped = run(small.config("parts"), 13);
  EXPECT_EQ(stopped.step, 13);
  EXPECT_NE(stopped.signal, 0);
  const auto continued = run(small.config("parts"));
  EXPECT_EQ(continued.step, 30);
  EXPECT_EQ(continued.signal, 0);
  EXPECT_EQ(checkpoint_bytes(whole.checkpoint), checkpoint_bytes(continued.checkpoint));
  EXPECT_EQ(metrics_without_times(small.folder() / "whole"),
            metrics_without_times(small.folder() / "parts"));
}

TEST(Trainer, EvaluationAndSavingLeaveTrainingAlone) {
  const SmallRun small;
  const auto plain = run(small.config("plain"));
  const auto busy = run(small.config("busy", {"eval.every=4", "checkpoint.every=5"}));
  // The recorded configuration is the same: neither key is one of the model or the optimizer.
  EXPECT_EQ(checkpoint_bytes(plain.checkpoint), checkpoint_bytes(busy.checkpoint));
}

TEST(Trainer, ZeroStepsWriteTheInitialWeights) {
  const SmallRun small;
  const auto result = run(small.config("zero", {"run.max_steps=0"}));
  EXPECT_EQ(result.step, 0);
  EXPECT_EQ(result.checkpoint.filename(), "step-00000000");
  EXPECT_TRUE(checkpoint::verify(result.checkpoint).is_good());
}

TEST(Trainer, KeepsTheNewestCheckpoints) {
  const SmallRun small;
  run(small.config("keep", {"checkpoint.every=4", "checkpoint.keep=3"}));
  std::vector<std::int64_t> steps;
  for (const auto& entry : checkpoint::list(small.folder() / "keep" / "checkpoints")) {
    steps.push_back(entry.step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{24, 28, 30}));
}

TEST(Trainer, ASecondProcessOnTheFolderIsRefused) {
  const SmallRun small;
  OneRank one;
  const train::RunFolder held(small.folder() / "held", one.world().all());
  EXPECT_THROW(run(small.config("held")), InputError);
}

TEST(Trainer, AnotherModelOnTheSameFolderIsRefusedWithBothValues) {
  const SmallRun small;
  run(small.config("model", {"run.max_steps=2"}));
  try {
    run(small.config("model", {"run.max_steps=4", "moe.top_k=3"}));
    FAIL() << "did not throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("moe.top_k was 2, is now 3"));
  }
}

/// A run that could not save its weights is refused before it has any.
TEST(Trainer, ADiskWithoutRoomForACheckpointIsRefusedAtTheStart) {
  const SmallRun small;
  const auto disk = small.folder() / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=400k") != 0) {
    GTEST_SKIP() << "no permission to mount a small disk: " << std::strerror(errno);
  }
  const std::string message = message_of([&] { run(small.config("disk/run")); });
  const bool has_steps = std::filesystem::exists(disk / "run" / "metrics.jsonl");
  ASSERT_EQ(::umount(disk.c_str()), 0);
  EXPECT_THAT(message, HasSubstr("a checkpoint of this run takes"));
  EXPECT_FALSE(has_steps);
}

TEST(Trainer, NonFiniteStepsAreNamedAndEndTheRun) {
  const SmallRun small;
  QuietReporter reporter;
  const auto config = small.config(
      "blown", {"optim.lr=1e30", "optim.clip=0.0", "optim.max_nonfinite=3", "optim.warmup=0"});
  try {
    train_alone(config, reporter.stop, reporter);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kFailed);
    EXPECT_THAT(error.what(), HasSubstr("not finite"));
    EXPECT_THAT(error.what(), HasSubstr("3 steps in a row"));
  }
  EXPECT_FALSE(reporter.warnings.empty());
  const auto newest = checkpoint::newest(small.folder() / "blown" / "checkpoints");
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(checkpoint::verify(newest->path).is_good());
}

std::string log_of(const SmallRun& small, const std::string& name) {
  return read_file(small.folder() / name / "log" / "rank-0000.txt");
}

TEST(Trainer, TheLogFileKeepsWhatItsLevelAllows) {
  const SmallRun small;
  run(small.config("calm", {"run.max_steps=2", "run.log_level=warning"}));
  EXPECT_EQ(log_of(small, "calm"), "");
  run(small.config("told", {"run.max_steps=2", "run.name=\"first try\""}));
  EXPECT_THAT(log_of(small, "told"), HasSubstr("run first try: "));
  EXPECT_THAT(log_of(small, "told"), Not(HasSubstr("step 1/2 ")));
  run(small.config("busy", {"run.max_steps=2", "run.log_level=debug"}));
  EXPECT_THAT(log_of(small, "busy"), AllOf(HasSubstr("run busy: "), HasSubstr("step 1/2 ")));

  const std::vector<std::string> blown = {"optim.lr=1e30", "optim.clip=0.0",
                                          "optim.max_nonfinite=3", "optim.warmup=0"};
  const auto with = [&](const char* level) {
    std::vector<std::string> keys = blown;
    keys.emplace_back(level);
    return keys;
  };
  EXPECT_THROW(run(small.config("blown", with("run.log_level=error"))), Error);
  EXPECT_THAT(log_of(small, "blown"), AllOf(StartsWith("error: step "), Not(HasSubstr("skipped"))));
  EXPECT_THROW(run(small.config("warned", with("run.log_level=warning"))), Error);
  EXPECT_THAT(log_of(small, "warned"), AllOf(StartsWith("warning: step "), HasSubstr("error: ")));
}

TEST(Trainer, TokensOfAnotherTokenizerAreRefused) {
  const SmallRun small;
  const auto done = run(small.config("own", {"run.max_steps=2"}));
  // A vocabulary of the same size: every id is in range, and means something else.
  const std::string other = small.other_tokenizer().string();
  const train::Config config = small.config("other", {"data.tokenizer=\"" + other + "\""});
  EXPECT_THAT(message_of([&] { run(config); }),
              AllOf(HasSubstr("data.train: "), HasSubstr("made with another tokenizer")));
  QuietReporter reporter;
  EXPECT_THAT(message_of([&] { evaluate_alone(config, done.checkpoint, reporter); }),
              AllOf(HasSubstr("data.eval: "), HasSubstr("made with another tokenizer")));
  const train::GenerateOptions options = {
      .checkpoint = done.checkpoint, .prompt = "a", .tokenizer = other};
  EXPECT_THAT(message_of([&] { train::generate(options, reporter); }),
              AllOf(HasSubstr("step-00000002"), HasSubstr("trained with another data.tokenizer")));
}

TEST(Trainer, ARunOfNoStepsNeedsNoTrainingData) {
  const SmallRun small;
  const auto result = run(small.config("empty", {"run.max_steps=0", "data.train=[]"}));
  EXPECT_TRUE(checkpoint::verify(result.checkpoint).is_good());
}

TEST(Trainer, ASignalAfterTheLastStepStopsNothing) {
  const SmallRun small;
  EXPECT_EQ(run(small.config("late", {"run.max_steps=3"}), 3).signal, 0);
}

TEST(Trainer, AModelWithoutExpertsTrainsEvaluatesAndGenerates) {
  const SmallRun small;
  std::string text = small.config_text("dense");
  const auto begin = text.find("[moe]");
  text.replace(begin, text.find("[data]") - begin, "dense_layers = 2\nffn_hidden = 48\n");
  const train::Config config = train::parse_config(text, "dense", {});
  const auto done = run(config);
  QuietReporter reporter;
  EXPECT_GT(evaluate_alone(config, done.checkpoint, reporter).tokens, 0);
  EXPECT_NE(
      train::generate({.checkpoint = done.checkpoint, .prompt = "The", .tokens = 3}, reporter), "");
}

TEST(Trainer, OtherTrainingDataOnResumeIsRefused) {
  const SmallRun small;
  run(small.config("grown", {"run.max_steps=2"}));
  // The same path with other tokens behind it; moved, the same tokens are the same data.
  const std::filesystem::path tokens = small.folder() / "tokens";
  const std::filesystem::path moved = small.folder() / "moved";
  std::filesystem::copy(tokens, moved);
  const std::string train = "data.train=[\"" + (moved / "train.tokens").string() + "\"]";
  EXPECT_EQ(run(small.config("grown", {"run.max_steps=3", train})).step, 3);
  const std::string other = "data.train=[\"" + (moved / "eval.tokens").string() + "\"]";
  EXPECT_THAT(message_of([&] { run(small.config("grown", {"run.max_steps=4", other})); }),
              HasSubstr("was trained with another data.train"));
}

TEST(Trainer, EvaluationWithAnotherModelIsToldAndWithoutBiasesRefused) {
  const SmallRun small;  // its runs balance by biases
  const auto done = run(small.config("biased", {"run.max_steps=3"}));
  QuietReporter reporter;
  evaluate_alone(small.config("biased"), done.checkpoint, reporter);
  EXPECT_TRUE(reporter.warnings.empty());
  evaluate_alone(small.config("biased", {"moe.top_k=1", "moe.balance_loss=0.5"}), done.checkpoint,
                 reporter);
  ASSERT_EQ(reporter.warnings.size(), 1U);
  EXPECT_THAT(reporter.warnings[0],
              AllOf(HasSubstr("moe.top_k was 2, is now 1"), Not(HasSubstr("balance_loss"))));
  const train::Config unbiased = small.config("biased", {"moe.bias_update=0"});
  EXPECT_THAT(message_of([&] { evaluate_alone(unbiased, done.checkpoint, reporter); }),
              AllOf(HasSubstr("layers.0.moe.router.bias"), HasSubstr("moe.bias_update = 0")));
}

TEST(Trainer, EvaluationUnderForcedRoutingDoesNotDependOnMicroBatches) {
  const SmallRun small;
  const std::vector<std::string> forced = {"run.max_steps=0", "moe.routing=random"};
  const auto done = run(small.config("forced", forced));
  QuietReporter reporter;
  const auto loss = [&](const char* micro) {
    std::vector<std::string> keys = forced;
    keys.emplace_back(micro);
    return evaluate_alone(small.config("forced", keys), done.checkpoint, reporter).loss;
  };
  const double one = loss("batch.micro_sequences=1");
  EXPECT_NEAR(loss("batch.micro_sequences=4"), one, 1e-6 * one);
}

TEST(Trainer, AllPackedDocumentsAreEvaluatedOnce) {
  const SmallRun small;
  const auto done = run(small.config("packed", {"run.max_steps=0", "data.packing=documents"}));
  QuietReporter reporter;
  const auto evaluated = [&](const char* micro) {
    return evaluate_alone(small.config("packed", {"data.packing=documents", micro}),
                          done.checkpoint, reporter);
  };
  const train::EvalResult one = evaluated("batch.micro_sequences=1");
  const train::EvalResult four = evaluated("batch.micro_sequences=4");
  EXPECT_EQ(one.tokens, four.tokens);
  EXPECT_EQ(one.text_bytes, four.text_bytes);
  EXPECT_NEAR(one.loss, four.loss, 1e-6 * one.loss);
}

TEST(Generate, ATokenizerWithMoreTokensThanTheModelIsRefused) {
  const SmallRun small;
  const std::string tokens = (small.folder() / "tokens" / "train.tokens").string();
  // Nothing tells this run that its tokenizer is too large: no tokenizer, no held-out text.
  std::string text = small.config_text("bare");
  const auto begin = text.find("tokenizer = ");
  text.replace(begin, text.find("sequence_length") - begin, "train = [\"" + tokens + "\"]\n");
  const auto done = run(train::parse_config(text, "bare", {}));
  QuietReporter reporter;
  const train::GenerateOptions options = {
      .checkpoint = done.checkpoint, .prompt = "a", .tokenizer = small.other_tokenizer(400)};
  EXPECT_THAT(message_of([&] { train::generate(options, reporter); }),
              HasSubstr("model.vocab = 320: must be at least 400"));
  EXPECT_THAT(message_of([&] {
                train::generate({.checkpoint = done.checkpoint, .prompt = "a"}, reporter);
              }),
              HasSubstr("give --tokenizer"));
}

TEST(Generate, MoreTokensThanMemoryAreRefused) {
  const SmallRun small;
  const auto done = run(small.config("long", {"run.max_steps=0"}));
  QuietReporter reporter;
  const train::GenerateOptions options = {
      .checkpoint = done.checkpoint, .prompt = "a", .tokens = 1'000'000'000};
  EXPECT_THAT(message_of([&] { train::generate(options, reporter); }),
              AllOf(HasSubstr("GiB"), HasSubstr("fewer --tokens")));
}

TEST(Trainer, MetricsCarryThePromisedKeys) {
  const SmallRun small;
  run(small.config("keys", {"run.max_steps=2"}));
  const auto line = nlohmann::json::parse(metrics_without_times(small.folder() / "keys").back());
  for (const char* key : {"step",
                          "tokens",
                          "loss/ce",
                          "loss/balance",
                          "loss/z",
                          "optim/lr",
                          "optim/grad_norm",
                          "optim/skipped",
                          "moe/max_over_mean",
                          "moe/layer_00/load",
                          "moe/layer_01/f",
                          "moe/layer_01/p",
                          "moe/layer_01/entropy_deficit",
                          "moe/layer_01/balance",
                          "moe/layer_01/max_over_mean",
                          "moe/requested",
                          "moe/kept",
                          "moe/dropped",
                          "moe/replays",
                          "memory/peak_bytes",
                          "memory/parameters_bytes",
                          "memory/workspace_bytes",
                          "eval/loss",
                          "eval/bits_per_byte"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  // 256 tokens, top-2, two layers.
  EXPECT_EQ(line["moe/requested"], 1024);
  EXPECT_EQ(line["moe/layer_00/load"].size(), 8U);
}

TEST(Trainer, PhasesChangeBatchAndLearningRate) {
  const SmallRun small;
  run(small.config("phases", {"optim.phases=[{steps=2, lr=0.001, schedule='constant', warmup=0}, "
                              "{lr=0.002, schedule='constant', warmup=0, batch_tokens=512}]",
                              "run.max_steps=4"}));
  const auto metrics = metrics_without_times(small.folder() / "phases");
  const auto at = [&](std::size_t i) { return nlohmann::json::parse(metrics[i]); };
  EXPECT_EQ(at(1)["tokens"], 512);
  EXPECT_EQ(at(2)["tokens"], 1024);
  EXPECT_EQ(at(3)["tokens"], 1536);
  EXPECT_EQ(at(1)["optim/lr"], 0.001);
  EXPECT_EQ(at(2)["optim/lr"], 0.002);
}

TEST(Generate, ContinuesAPromptReproducibly) {
  const SmallRun small;
  const auto trained = run(small.config("text"));
  QuietReporter reporter;
  const train::GenerateOptions options = {.checkpoint = trained.checkpoint,
                                          .prompt = "It was ",
                                          .tokens = 20,
                                          .temperature = 0.9,
                                          .tokenizer = {}};
  const std::string text = train::generate(options, reporter);
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text, train::generate(options, reporter));
}

TEST(Evaluate, MatchesTheEvaluationDuringTraining) {
  const SmallRun small;
  const auto config = small.config("eval");
  const auto trained = run(config);
  QuietReporter reporter;
  const auto result = evaluate_alone(config, trained.checkpoint, reporter);
  const auto last = nlohmann::json::parse(metrics_without_times(small.folder() / "eval").back());
  EXPECT_EQ(result.loss, last["eval/loss"].get<double>());
  EXPECT_EQ(result.bits_per_byte, last["eval/bits_per_byte"].get<double>());
  EXPECT_LE(result.text_bytes, 6000);
  EXPECT_GE(result.text_bytes, 5980);
}

}  // namespace
}  // namespace ulmus::test
