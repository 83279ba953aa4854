// From text to a checkpoint and back through the program, and what it does with bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "ulmus/base/check.h"
#include "ulmus/base/file.h"

namespace ulmus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

/// A folder with a tokenizer, token files and the configuration of a tiny model.
class TrainCommand : public testing::Test {
 protected:
  TrainCommand() {
    const std::string text = read_file(ULMUS_TEST_DATA "/austen-excerpt.txt");
    folder_.write("text.txt", text);
    must({"data", "tokenizer-train", folder_.path("text.txt"), "--vocab", "300", "--output",
          folder_.path("tokenizer.json"), "--threads", "1"});
    for (const char* name : {"train", "held"}) {
      must({"data", "tokenize", folder_.path("text.txt"), "--tokenizer",
            folder_.path("tokenizer.json"), "--output", folder_.path("tokens"), "--name", name,
            "--threads", "1"});
    }
    config_ = folder_.write("config.toml",
                            "[run]\ndir = \"" + folder_.path("run") +
                                "\"\nmax_steps = 4\nlog_every = 1\n" + R"(
[model]
d_model = 32
layers = 2
heads = 2
vocab = 300
[moe]
experts = 4
top_k = 2
expert_hidden = 16
[data]
)" + "tokenizer = \"" + folder_.path("tokenizer.json") +
                                "\"\ntrain = [\"" + folder_.path("tokens/train.tokens") +
                                "\"]\neval = [\"" + folder_.path("tokens/held.tokens") + R"("]
sequence_length = 32
[optim]
lr = 1e-3
[batch]
tokens = 64
[eval]
tokens = 128
[device]
threads = 1
)");
  }

  static Finished must(const std::vector<std::string>& arguments) {
    Finished run = run_program(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    return run;
  }

  TestFolder folder_;
  std::string config_;
};

TEST_F(TrainCommand, TrainsEvaluatesGeneratesAndVerifies) {
  must({"train", config_});
  const std::string run_dir = folder_.path("run");
  const std::string checkpoint = folder_.path("run/checkpoints/step-00000004");
  EXPECT_TRUE(std::filesystem::exists(checkpoint + "/manifest.json"));

  const auto eval =
      nlohmann::json::parse(must({"eval", config_, "--checkpoint", checkpoint, "--json", "-"}).out);
  EXPECT_GT(eval.at("eval/loss").get<double>(), 0.0);
  EXPECT_GT(eval.at("eval/bits_per_byte").get<double>(), 0.0);
  // A run folder stands for its newest checkpoint.
  const auto again =
      nlohmann::json::parse(must({"eval", config_, "--checkpoint", run_dir, "--json", "-"}).out);
  EXPECT_EQ(again.at("eval/loss"), eval.at("eval/loss"));

  const std::vector<std::string> generate = {
      "generate", "--checkpoint", run_dir, "--prompt", "It is", "--tokens", "8", "--seed", "3"};
  const std::string text = must(generate).out;
  EXPECT_THAT(text, testing::StartsWith("It is"));
  EXPECT_EQ(must(generate).out, text);

  EXPECT_THAT(must({"checkpoint", "show", run_dir}).out, HasSubstr("step 4"));
  EXPECT_EQ(
      nlohmann::json::parse(must({"checkpoint", "verify", run_dir, "--json", "-"}).out).at("good"),
      true);
}

/// Flips a bit in one of the tensor files of a checkpoint; its name.
std::string flip_a_bit(const std::filesystem::path& checkpoint) {
  std::filesystem::path victim;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".safetensors") victim = entry.path();
  }
  std::string bytes = read_file(victim);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(victim, std::ios::binary) << bytes;
  return victim.filename();
}

TEST_F(TrainCommand, ADamagedCheckpointIsStatusThree) {
  must({"train", config_});
  const std::filesystem::path checkpoint = folder_.path("run/checkpoints/step-00000004");
  const std::string victim = flip_a_bit(checkpoint);
  const Finished run = run_program({"checkpoint", "verify", checkpoint.string()});
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr(victim));
  EXPECT_EQ(run_program({"eval", config_, "--checkpoint", checkpoint.string()}).status, 2);
}

TEST_F(TrainCommand, ADamagedNewestCheckpointIsNotContinuedAndTheNewestGoodOneIsNamed) {
  must({"train", config_, "--set", "checkpoint.every=2"});
  const std::string newest = folder_.path("run/checkpoints/step-00000004");
  const std::string victim = flip_a_bit(newest);
  const Finished run = run_program({"train", config_, "--set", "run.max_steps=6"});
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr(victim), HasSubstr("step-00000002")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("run/checkpoints/step-00000006")));
  // As the message says: without the damaged one the run continues.
  std::filesystem::remove_all(newest);
  must({"train", config_, "--set", "run.max_steps=6"});
  EXPECT_TRUE(std::filesystem::exists(folder_.path("run/checkpoints/step-00000006")));
}

TEST_F(TrainCommand, ARenamedCheckpointIsRefusedAndNothingIsDeleted) {
  must({"train", config_, "--set", "checkpoint.every=2"});
  const std::filesystem::path folder = folder_.path("run/checkpoints");
  std::filesystem::rename(folder / "step-00000004", folder / "step-00000009");
  const Finished run =
      run_program({"train", config_, "--set", "run.max_steps=6", "--set", "checkpoint.keep=1"});
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the manifest is of step 4, whose folder is named step-00000004"));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-00000002"));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-00000009"));
}

TEST_F(TrainCommand, AMissingManifestIsDamage) {
  must({"train", config_, "--set", "checkpoint.every=2"});
  std::filesystem::remove(folder_.path("run/checkpoints/step-00000004/manifest.json"));
  const Finished run = run_program({"train", config_, "--set", "run.max_steps=6"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("manifest.json"), HasSubstr("step-00000002")));
  EXPECT_EQ(run_program({"checkpoint", "verify", folder_.path("run")}).status, 3);
}

TEST_F(TrainCommand, APipeInAFilesPlaceIsRefusedAtOnce) {
  must({"train", config_});
  const std::string file = folder_.path("run/checkpoints/step-00000004/head.safetensors");
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(run_program({"checkpoint", "verify", folder_.path("run")}).status, 3);
  EXPECT_EQ(run_program({"eval", config_, "--checkpoint", folder_.path("run")}).status, 2);
}

TEST_F(TrainCommand, ARunThatEndsWithoutFiniteNumbersFailed) {
  const Finished run = run_program({"train", config_, "--set", "optim.lr=1e30"});
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("steps were skipped: loss or gradient is not finite"));
  EXPECT_EQ(run_program({"checkpoint", "verify", folder_.path("run")}).status, 0);
}

TEST_F(TrainCommand, AKeyOfManyPartsEndsNoStack) {
  std::string key = "a";
  for (int i = 0; i < 50000; ++i)
    key += ".a";
  const Finished run = run_program({"train", folder_.write("deep.toml", key + " = 1\n")});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("deep.toml:1: a key of more than"));
}

TEST_F(TrainCommand, AFullDiskEndsTheRunAndLeavesThePreviousCheckpoint) {
  const std::string disk = folder_.path("disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=5m") != 0) {
    GTEST_SKIP() << "no permission to mount a small disk: " << std::strerror(errno);
  }
  const Finished run = run_program({"train", config_, "--set", "run.dir=" + disk + "/run", "--set",
                                    "checkpoint.every=2", "--set", "run.max_steps=40"});
  const Finished verified = run_program({"checkpoint", "verify", disk + "/run"});
  const std::string log = read_file(disk + "/run/log/rank-0000.txt");
  ASSERT_EQ(::umount(disk.c_str()), 0);
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("bytes are needed"));
  EXPECT_THAT(log, HasSubstr("error: "));
  EXPECT_EQ(verified.status, 0) << verified.err;
}

TEST_F(TrainCommand, DryRunPrintsWhatTheRunWillBe) {
  const Finished run = must({"train", config_, "--dry-run", "--set", "moe.top_k=3"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("top_k = 3"), HasSubstr("parameters"),
                             HasSubstr("activations"), HasSubstr("1 threads")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("run/checkpoints")));
  const auto facts =
      nlohmann::json::parse(must({"train", config_, "--dry-run", "--json", "-"}).out);
  EXPECT_GT(facts.at("total_params").get<std::int64_t>(),
            facts.at("active_params").get<std::int64_t>());
  EXPECT_GT(facts.at("memory").at("total_bytes").get<std::int64_t>(), 0);
}

TEST_F(TrainCommand, BadConfigurationIsStatusTwoAndNamesTheKey) {
  struct Case {
    std::string set;
    std::string message;
  };
  for (const Case& bad :
       {Case{"moe.topk=2", "did you mean moe.top_k?"}, Case{"moe.top_k=5", "moe.top_k = 5"},
        Case{"moe.top_k=two", "expected an integer"}, Case{"model.heads=3", "model.heads = 3"},
        Case{"parallel.pipeline=2", "parallel.pipeline = 2 is not built yet"},
        Case{"precision.compute=bf16", "not built yet; built: fp32, fp64"},
        Case{"data.train=/nowhere/x.tokens", "/nowhere/x.tokens"},
        Case{"model.vocab=257", "257"}}) {
    const Finished run = run_program({"train", config_, "--set", bad.set});
    EXPECT_EQ(run.status, 2) << bad.set << ": " << run.err;
    EXPECT_THAT(run.err, HasSubstr(bad.message));
    EXPECT_THAT(run.out, IsEmpty());
  }
  EXPECT_EQ(run_program({"train", folder_.path("none.toml")}).status, 2);
  EXPECT_EQ(run_program({"train", config_, "--json", "/nowhere/x.json"}).status, 2);
}

TEST_F(TrainCommand, ASignalSavesAndStops) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string run_dir = folder_.path("stopped" + std::to_string(signal));
    Program program(
        {"train", config_, "--set", "run.max_steps=1000000", "--set", "run.dir=" + run_dir});
    ASSERT_TRUE(program.wait_for("step 1/"));
    program.send(signal);
    const Finished run = program.finish();
    EXPECT_EQ(run.status, 128 + signal) << run.err;
    EXPECT_EQ(run_program({"checkpoint", "verify", run_dir}).status, 0);
  }
}

TEST_F(TrainCommand, ResumeRefusesAnotherModelAndContinuesTheSame) {
  must({"train", config_});
  const Finished other = run_program({"train", config_, "--set", "moe.top_k=1"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("moe.top_k was 2, is now 1"));
  must({"train", config_, "--set", "run.max_steps=6"});
  EXPECT_TRUE(std::filesystem::exists(folder_.path("run/checkpoints/step-00000006")));
}

}  // namespace
}  // namespace ulmus::test
