#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ulmus/base/error.h"
#include "ulmus/train/config_file.h"

namespace ulmus::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Config config_with(const std::vector<std::string>& overrides) {
  return parse_config(
      "run.max_steps = 10\nrun.dir = \"runs/r\"\nmodel.d_model = 64\nmodel.layers = 2\n"
      "model.heads = 4\nmodel.vocab = 256\nmoe.experts = 8\nmoe.top_k = 2\n"
      "moe.expert_hidden = 32\ndata.train = [\"a\"]\ndata.sequence_length = 16\noptim.lr = 1e-3\n"
      "batch.tokens = 64\n",
      "file.toml", overrides);
}

std::string resume_message(const std::vector<std::string>& old_keys,
                           const std::vector<std::string>& new_keys) {
  try {
    check_resume(checkpoint_settings(config_with(old_keys)), config_with(new_keys));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ConfigResume, TheSameConfigurationHasNoDifferences) {
  EXPECT_TRUE(resume_differences(checkpoint_settings(config_with({})), config_with({})).empty());
}

TEST(ConfigResume, AForeignCheckpointsWordsAreSafeToPrint) {
  Settings kept = checkpoint_settings(config_with({}));
  kept["moe.top_k"] = "2\x1b[2J\nulmus: done";
  try {
    check_resume(kept, config_with({}));
    FAIL() << "did not throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("moe.top_k was"));
    EXPECT_THAT(error.what(), Not(HasSubstr("\x1b")));
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
  }
}

TEST(ConfigResume, PlacesLengthsAndTheLearningRateMayChange) {
  for (const char* change :
       {"run.dir=elsewhere", "run.max_steps=20", "run.max_tokens=9999", "run.log_every=1",
        "optim.lr=5e-4", "optim.schedule=linear", "optim.phases=[{steps = 4}, {lr = 1e-4}]",
        "optim.clip=0.5", "device.threads=1", "memory.head_chunk=3", "checkpoint.every=5",
        "data.train=[\"moved\"]", "data.tokenizer=moved.json", "batch.micro_sequences=2"}) {
    EXPECT_EQ(resume_message({}, {change}), "") << change;
  }
}

TEST(ConfigResume, OthersAreRefusedWithBothValues) {
  EXPECT_THAT(resume_message({}, {"moe.top_k=4", "run.seed=3", "optim.lr=1.0", "run.dir=runs/q"}),
              AllOf(HasSubstr("the run in runs/q"), HasSubstr("moe.top_k was 2, is now 4"),
                    HasSubstr("run.seed was 0, is now 3"), Not(HasSubstr("optim.lr"))));
  for (const char* change :
       {"model.d_model=128", "model.norm=peri", "moe.balance_loss=0.5", "data.packing=documents",
        "optim.betas=[0.9, 0.99]", "optim.weight_decay=0", "optim.groups=[{match = \"x\"}]",
        "batch.tokens=128", "precision.compute=fp64", "data.mix=[2.0]"}) {
    EXPECT_THAT(resume_message({}, {change}), HasSubstr(" was ")) << change;
  }
  EXPECT_THAT(resume_message({}, {"data.mix=[2.0]"}),
              HasSubstr("data.mix was not set, is now [2.0]"));
}

TEST(ConfigResume, ACheckpointTellsModelAndOptimizerButNotPlacesAndThreads) {
  const Settings kept = checkpoint_settings(config_with({"device.threads=3", "run.log_every=7"}));
  EXPECT_EQ(kept.at("model.d_model"), "64");
  EXPECT_EQ(kept.at("optim.lr"), "0.001");
  EXPECT_EQ(kept.at("data.packing"), "\"chunk\"");
  for (const char* absent : {"run.dir", "data.train", "device.threads", "run.log_every",
                             "batch.micro_sequences", "data.tokenizer", "parallel.expert"}) {
    EXPECT_FALSE(kept.contains(absent)) << absent;
  }
}

TEST(ConfigResume, AKeyOfAnotherVersionIsRefused) {
  Settings kept = checkpoint_settings(config_with({}));
  kept["moe.wings"] = "2";
  try {
    check_resume(kept, config_with({}));
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("moe.wings was 2, is now not set"));
  }
}

TEST(ConfigResume, MicroBatchesAreFixedWhereTheLossCountsThem) {
  const std::vector<std::string> scope = {"moe.balance_scope=micro_batch"};
  EXPECT_THAT(resume_message(scope, {"moe.balance_scope=micro_batch", "batch.micro_sequences=2"}),
              HasSubstr("batch.micro_sequences was 1, is now 2"));
}

}  // namespace
}  // namespace ulmus::train
