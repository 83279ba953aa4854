// The mean of checkpoints through the program: what evaluates, generates and trains on from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "ulmus/base/file.h"

namespace ulmus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A run of four steps with a checkpoint every second, of a tiny model with balancing biases.
class CheckpointAverage : public testing::Test {
 protected:
  CheckpointAverage() {
    const std::string text =
        folder_.write("text.txt", read_file(ULMUS_TEST_DATA "/austen-excerpt.txt"));
    const std::string tokenizer = folder_.path("tokenizer.json");
    must({"data", "tokenizer-train", text, "--vocab", "300", "--output", tokenizer, "--threads",
          "1"});
    must({"data", "tokenize", text, "--tokenizer", tokenizer, "--output", folder_.path("tokens"),
          "--name", "all", "--threads", "1"});
    const std::string tokens = "[\"" + folder_.path("tokens/all.tokens") + "\"]\n";
    config_ = folder_.write(
        "config.toml",
        "[run]\ndir = \"" + run() + "\"\nmax_steps = 4\n[model]\nd_model = 32\nlayers = 2\n" +
            "heads = 2\nvocab = 300\n[moe]\nexperts = 4\ntop_k = 2\nexpert_hidden = 16\n" +
            "bias_update = 0.01\n[data]\ntokenizer = \"" + tokenizer + "\"\ntrain = " + tokens +
            "eval = " + tokens +
            "sequence_length = 32\n[optim]\nlr = 1e-2\n[batch]\ntokens = 64\n" +
            "[checkpoint]\nevery = 2\n[eval]\ntokens = 128\n[device]\nthreads = 1\n");
    must({"train", config_});
  }

  static Finished must(const std::vector<std::string>& arguments) {
    Finished run = run_program(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    return run;
  }
  static nlohmann::json facts(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "-"});
    return nlohmann::json::parse(must(arguments).out);
  }
  std::string run() const { return folder_.path("run"); }
  std::string step(const std::string& number) const {
    return folder_.path("run/checkpoints/step-0000000" + number);
  }
  std::string mean() const { return folder_.path("run/checkpoints/mean"); }

  TestFolder folder_;
  std::string config_;
};

TEST_F(CheckpointAverage, ShowsVerifiesEvaluatesGeneratesAndTrainsOn) {
  // A run folder stands for its newest.
  const auto made = facts({"checkpoint", "average", step("2"), run(), "--output", mean()});
  EXPECT_EQ(made.at("averaged"), (std::vector<std::string>{step("2"), step("4")}));
  EXPECT_EQ(made.at("step"), 4);
  const auto shown = facts({"checkpoint", "show", mean()});
  EXPECT_EQ(shown.at("info").at("averaged"), step("2") + ", " + step("4"));
  EXPECT_EQ(shown.at("elements"), made.at("elements"));
  EXPECT_EQ(facts({"checkpoint", "verify", mean()}).at("good"), true);

  const auto loss = [&](const std::string& checkpoint) {
    return facts({"eval", config_, "--checkpoint", checkpoint}).at("eval/loss").get<double>();
  };
  EXPECT_NE(loss(mean()), loss(step("2")));
  EXPECT_NE(loss(mean()), loss(step("4")));
  EXPECT_LT(loss(mean()), loss(step("2")));
  EXPECT_THAT(must({"generate", "--checkpoint", mean(), "--prompt", "It is", "--tokens", "4"}).out,
              testing::StartsWith("It is"));

  // The run itself goes on from its own newest.
  EXPECT_THAT(must({"train", config_, "--set", "run.max_steps=5"}).err,
              HasSubstr("continues from " + step("4")));
  const std::vector<std::string> from_mean = {"train", config_,
                                              "--set", "run.dir=" + folder_.path("next"),
                                              "--set", "checkpoint.load=" + mean()};
  std::vector<std::string> without_optimizer = from_mean;
  without_optimizer.insert(without_optimizer.end(), {"--set", "checkpoint.load_optimizer=false"});
  must(without_optimizer);
  const Finished refused =
      run_program({"train", config_, "--set", "run.dir=" + folder_.path("other"), "--set",
                   "checkpoint.load=" + mean()});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("exp_avg"));
}

TEST_F(CheckpointAverage, WhatItCannotDoIsStatusTwo) {
  const auto refused = [&](const std::vector<std::string>& dirs, const std::string& output) {
    std::vector<std::string> arguments = {"checkpoint", "average", "--output", output};
    arguments.insert(arguments.end(), dirs.begin(), dirs.end());
    const Finished finished = run_program(arguments);
    EXPECT_EQ(finished.status, 2) << finished.err;
    return finished.err;
  };
  EXPECT_THAT(refused({step("2")}, mean()), HasSubstr("two checkpoints or more"));
  EXPECT_THAT(refused({step("4"), run()}, mean()),
              AllOf(HasSubstr("the same checkpoint twice"), HasSubstr(step("4"))));
  EXPECT_THAT(refused({step("2"), step("4")}, step("4")), HasSubstr("exists already"));
  EXPECT_THAT(refused({step("2"), folder_.path("none")}, mean()), HasSubstr("no such folder"));
  EXPECT_EQ(run_program({"checkpoint", "average", step("2"), step("4")}).status, 2);
  must({"train", config_, "--set", "moe.top_k=1", "--set", "run.dir=" + folder_.path("other")});
  EXPECT_THAT(refused({run(), folder_.path("other")}, mean()), HasSubstr("\"moe.top_k\": 2 and 1"));
}

}  // namespace
}  // namespace ulmus::test
