#include "ulmus/train/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>

#include "tests/support/message_of.h"
#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

using test::message_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSmall = R"([run]
max_steps = 10
[model]
d_model = 64
layers = 2
heads = 4
vocab = 256
[moe]
experts = 8
top_k = 2
expert_hidden = 32
[data]
train = ["a.tokens"]
sequence_length = 16
[optim]
lr = 1e-3
[batch]
tokens = 64
)";

Config parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "file.toml", overrides);
}

/// kSmall with overrides.
Config small_with(const std::vector<std::string>& overrides) { return parse(kSmall, overrides); }

/// kSmall with other lines behind it, the first of them line 15.
std::string message_of_line(const std::string& lines) {
  const std::string dotted = R"(run.max_steps = 10
model.d_model = 64
model.layers = 2
model.heads = 4
model.vocab = 256
moe.experts = 8
moe.top_k = 2
moe.expert_hidden = 32
data.train = ["a.tokens"]
data.sequence_length = 16
optim.lr = 1e-3
batch.tokens = 64
batch.micro_sequences = 1
eval.tokens = 0
)";
  return message_of([&] { parse(dotted + lines + "\n"); });
}

std::string message_of_override(const std::string& argument) {
  return message_of([&] { small_with({argument}); });
}

TEST(ConfigFile, ReadsWhatWasWrittenAndDefaultsForTheRest) {
  const Config config = parse(kSmall);
  EXPECT_EQ(config.run.max_steps, 10);
  EXPECT_FALSE(config.run.max_tokens.has_value());
  EXPECT_EQ(config.run.dir, "runs/default");
  EXPECT_EQ(config.model.family, "olmoe");
  EXPECT_EQ(config.model.d_model, 64);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.model.kv_heads, 4);
  EXPECT_EQ(config.model.moe.experts, 8);
  EXPECT_EQ(config.model.moe.balance_loss, 0.01);
  ASSERT_EQ(config.optim.phases.size(), 1U);
  EXPECT_EQ(config.optim.phases[0].lr, 1e-3);
  EXPECT_EQ(config.optim.phases[0].schedule, optim::ScheduleKind::kCosine);
  EXPECT_EQ(config.batch.micro_sequences, 1);
  EXPECT_EQ(config.compute, Compute::kFp32);
}

TEST(ConfigFile, FamilyDefaultsComeBeforeKeysWhateverTheOrderInTheFile) {
  const Config config =
      small_with({"model.init_std=0.5", "model.family=olmo3_moe", "model.ffn_hidden=128"});
  EXPECT_EQ(config.model.family, "olmo3_moe");
  EXPECT_EQ(config.model.init_std, 0.5);
  EXPECT_EQ(config.model.norm, model::NormPlacement::kPeri);
  EXPECT_EQ(config.model.kv_heads, 1);
  EXPECT_EQ(config.model.embed_scale, 8.0);
  EXPECT_EQ(config.model.moe.shared_hidden, 32);
  EXPECT_EQ(config.model.moe.balance_scope, nn::BalanceScope::kMicroBatch);
}

TEST(ConfigFile, OverridesTakeTomlAndBareWordsAndTheLastWins) {
  const Config config = small_with(
      {"run.dir=runs/other-place", "moe.top_k=3", "moe.top_k=4", "model.tied=true",
       "run.name=2026-10-01", "optim.betas=[0.8, 0.9]", "data.train=b.tokens",
       "model.rope={theta = 5000, yarn_factor = 2.0, yarn_original_length = 8}",
       "optim.groups=[{match = \"*.router.*\", lr_scale = 0.5}]", "data.tokenizer='a b.json'"});
  EXPECT_EQ(config.run.dir, "runs/other-place");
  EXPECT_EQ(config.run.name, "2026-10-01");
  EXPECT_EQ(config.model.moe.top_k, 4);
  EXPECT_TRUE(config.model.tied);
  EXPECT_EQ(config.optim.beta2, 0.9);
  EXPECT_THAT(config.data.train, ElementsAre("b.tokens"));
  EXPECT_EQ(config.model.rope.theta, 5000.0);
  EXPECT_EQ(config.data.tokenizer, "a b.json");
  ASSERT_EQ(config.optim.groups.size(), 1U);
  EXPECT_EQ(config.optim.groups[0].lr_scale, 0.5);
}

TEST(ConfigFile, AnOverrideReplacesAKeyOfAWholeOtherTable) {
  const std::string text = std::string(kSmall) + "[checkpoint]\nkeep = 3\n";
  EXPECT_EQ(parse(text, {"checkpoint.keep=4"}).checkpoint.keep, 4);
}

TEST(ConfigFile, BadOverridesNameTheArgument) {
  EXPECT_THAT(message_of_override("moe.top_k"), HasSubstr("--set moe.top_k: expected key=value"));
  EXPECT_THAT(message_of_override("=4"), HasSubstr("expected a dotted key"));
  EXPECT_THAT(message_of_override("moe..top_k=4"), HasSubstr("expected a dotted key"));
  EXPECT_THAT(message_of_override("data.train=[1, 2"), HasSubstr("is neither TOML"));
  EXPECT_THAT(message_of_override("run.name=\"a"), HasSubstr("is neither TOML"));
  EXPECT_THAT(message_of_override("run.seed=1\nrun.dir = 2"), HasSubstr("found string"));
  EXPECT_THAT(message_of_override("run.name=\xff\xfe"), HasSubstr("utf-8"));
  EXPECT_THAT(message_of_override("moe.topk=4"),
              AllOf(HasSubstr("--set moe.topk=4: unknown key moe.topk"),
                    HasSubstr("did you mean moe.top_k?")));
}

TEST(ConfigFile, UnknownKeysOfferTheNearestNameAndTheTable) {
  EXPECT_THAT(message_of([] { parse(std::string(kSmall) + "micro_sequence = 2\n"); }),
              AllOf(StartsWith("file.toml:19: unknown key batch.micro_sequence"),
                    HasSubstr("did you mean batch.micro_sequences?"),
                    HasSubstr("[batch] has tokens, micro_sequences")));
  EXPECT_THAT(message_of_line("model.lr = 1"), HasSubstr("did you mean optim.lr?"));
  EXPECT_THAT(message_of_line("[modle]\nd_model = 4"),
              AllOf(HasSubstr("unknown key modle.d_model"), HasSubstr("model.d_model")));
  EXPECT_THAT(message_of_line("[modle]"), AllOf(HasSubstr("file.toml:15: unknown table modle"),
                                                HasSubstr("did you mean model?")));
  EXPECT_THAT(message_of_line("seed = 1"), HasSubstr("did you mean run.seed?"));
  EXPECT_THAT(message_of_line("\"run.seed\" = 1"), HasSubstr("unknown key"));
  EXPECT_THAT(message_of_line("model.rope.thta = 1.0"), HasSubstr("model.rope.theta"));
  EXPECT_THAT(message_of_line("optim.phases = [{lrr = 1.0}]"),
              AllOf(HasSubstr("file.toml:15: unknown key optim.phases[0].lrr"),
                    HasSubstr("did you mean lr?"), HasSubstr("batch_tokens")));
  EXPECT_THAT(message_of_line("optim.groups = [{lr_scale = 1.0}]"),
              HasSubstr("optim.groups[0].match is missing"));
}

TEST(ConfigFile, TablesAndKeysAreNotMistakenForEachOther) {
  EXPECT_THAT(message_of([] { parse("model = 3\n"); }),
              HasSubstr("file.toml:1: model: is a table of keys, found 3"));
  EXPECT_THAT(message_of_line("run.dir.x = 3"), HasSubstr("run.dir is a key, not a table"));
  EXPECT_THAT(message_of([] {
                parse(
                    "[run.seed]\n[model]\nd_model=8\nlayers=1\nheads=1\nvocab=9\n[data]\n"
                    "sequence_length=4\n[batch]\ntokens=4\n");
              }),
              HasSubstr("run.seed: expected an integer"));
}

TEST(ConfigFile, NotTomlIsRefusedWithItsLine) {
  EXPECT_THAT(message_of([] { parse("[run]\nmax_steps 10\n"); }), StartsWith("file.toml:2: "));
  EXPECT_THAT(message_of([] { parse("[run]\nseed = 1\nseed = 2\n"); }),
              AllOf(StartsWith("file.toml:3: "), HasSubstr("cannot redefine")));
  EXPECT_THAT(message_of([] { parse("x = " + std::string(5000, '[')); }), HasSubstr("file.toml:1"));
  EXPECT_THAT(message_of([] { load_config("/nowhere/at/all.toml", {}); }),
              HasSubstr("/nowhere/at/all.toml"));
}

TEST(ConfigFile, MissingRequiredKeysAreNamed) {
  EXPECT_THAT(message_of([] { parse(""); }), HasSubstr("file.toml: model.d_model is missing"));
  EXPECT_THAT(message_of([] {
                parse(
                    "[model]\nd_model=8\nlayers=1\nheads=1\nvocab=9\n[data]\nsequence_length=4\n"
                    "train=[\"a\"]\n[batch]\ntokens=4\n[moe]\nexperts=1\ntop_k=1\n"
                    "expert_hidden=4\n[run]\nmax_steps=1\n");
              }),
              HasSubstr("optim.lr is missing"));
}

class EveryKey : public testing::TestWithParam<std::string> {};

std::vector<std::string> all_keys() {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    names.push_back(key.name);
  }
  return names;
}

/// As a GoogleTest name.
std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
}

TEST_P(EveryKey, RefusesAWrongTypeWithFileAndLine) {
  const FlatConfig flat = parse_toml("\n" + GetParam() + " = 1979-05-27\n", "file.toml");
  const auto key = std::ranges::find(config_keys(), GetParam(), &ConfigKey::name);
  Config config;
  EXPECT_THAT(message_of([&] { key->read(config, flat.at(GetParam())); }),
              AllOf(StartsWith("file.toml:2: " + GetParam()), HasSubstr("1979-05-27")));
}

INSTANTIATE_TEST_SUITE_P(All, EveryKey, testing::ValuesIn(all_keys()), test_name);

struct Refusal {
  std::string argument;
  std::string message;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.argument; }

class RefusedValue : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedValue, NamesKeyValueAndWhatIsAllowed) {
  EXPECT_THAT(message_of_override(GetParam().argument), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    NotBuilt, RefusedValue,
    testing::Values(
        Refusal{"parallel.pipeline=2", "parallel.pipeline = 2 is not built yet; built: 1"},
        Refusal{"parallel.context=2", "parallel.context = 2 is not built yet"},
        Refusal{"parallel.exchange=rowwise",
                "parallel.exchange = \"rowwise\" is not built yet; built: all_to_all, local"},
        Refusal{"parallel.split=[1, 2]", "parallel.split = [1, 2] is not built yet; built: []"},
        Refusal{"precision.compute=bf16",
                "precision.compute = \"bf16\" is not built yet; built: fp32, fp64"},
        Refusal{"precision.compute=mxfp8", "is not built yet"},
        Refusal{"precision.exchange=mxfp8", "precision.exchange = \"mxfp8\" is not built yet"},
        Refusal{"memory.recompute=block",
                "memory.recompute = \"block\" is not built yet; built: \"none\""},
        Refusal{"moe.overflow=drop", "moe.overflow = \"drop\" is not built yet; built: replay"},
        Refusal{"moe.capacity=1.25", "moe.capacity = 1.25 is not built yet; built: \"auto\""},
        Refusal{"moe.groups=4", "moe.groups = 4 is not built yet"},
        Refusal{"moe.shared_gate=true", "moe.shared_gate = true is not built yet"},
        Refusal{"device.kind=cuda", "device.kind = \"cuda\" is not built yet; built: cpu"},
        Refusal{"model.family=mixtral",
                "model.family = \"mixtral\" is not built yet; built: olmoe, olmo3_moe"}));

INSTANTIATE_TEST_SUITE_P(
    Ranges, RefusedValue,
    testing::Values(
        Refusal{"moe.top_k=four", "moe.top_k: expected an integer, found string \"four\""},
        Refusal{"moe.top_k=2.0", "expected an integer (write 2;"},
        Refusal{"moe.top_k=0", "moe.top_k = 0: must be >= 1"},
        Refusal{"moe.top_k=9", "moe.top_k = 9: must be 1 ... moe.experts = 8"},
        Refusal{"model.layers=99999999999", "model.layers = 99999999999: must be 1 ... 2147483647"},
        Refusal{"model.heads=3", "model.d_model = 64 is not a multiple of model.heads = 3"},
        Refusal{"model.kv_heads=3", "model.heads = 4 is not a multiple of model.kv_heads = 3"},
        Refusal{"model.norm=both", "model.norm = \"both\": must be one of pre, output, peri"},
        Refusal{"model.norm=prre", "did you mean \"pre\"?"},
        Refusal{"model.norm_eps=0", "model.norm_eps = 0: must be > 0"},
        Refusal{"optim.lr=nan", "optim.lr = nan: must be a finite number"},
        Refusal{"optim.lr=-1e-3", "optim.lr = -0.001: must be > 0"},
        Refusal{"optim.betas=[0.9]", "optim.betas: expected two numbers"},
        Refusal{"optim.betas=[0.9, 1.0]", "optim.betas = 1.0: must be >= 0, < 1"},
        Refusal{"optim.schedule=cosin", "did you mean \"cosine\"?"},
        Refusal{"optim.final_fraction=1.5", "must be >= 0, <= 1"},
        Refusal{"run.seed=-1", "run.seed = -1: must be >= 0"},
        Refusal{"run.trace=[2, 0]", "run.trace = 0: must be 1 ... 4294967296"},
        Refusal{"run.trace=3", "run.trace: expected an array, found integer 3"},
        Refusal{"run.max_steps=99999999999", "run.max_steps = 99999999999: must be"},
        Refusal{"batch.tokens=65",
                "batch.tokens = 65: must be a positive multiple of data.sequence_length = 16"},
        Refusal{"data.train=[]", "data.train is missing"},
        Refusal{"data.packing=zip", "data.packing = \"zip\": must be one of chunk, documents"},
        Refusal{"data.mix=[1, 2]", "data.mix has 2 weights, data.train has 1 paths"},
        Refusal{"data.mix=[0]", "data.mix = 0: must be > 0"},
        Refusal{"eval.every=5",
                "eval.every = 5: has no effect, since data.eval names no held-out token files"},
        Refusal{"eval.tokens=8", "eval.tokens = 8: must be 0 (all) or at least"},
        Refusal{"checkpoint.load_optimizer=false",
                "has no effect, since checkpoint.load is not set; leave the key out or give true"},
        Refusal{"optim.decay_fraction=0.5", "optim.decay_fraction = 0.5: has no effect"},
        Refusal{"optim.decay_shape=one_minus_sqrt", "optim.schedule is not \"wsd\""},
        Refusal{"model.rope.yarn_beta_fast=33", "model.rope.yarn_factor is 1"},
        Refusal{"model.rope.theta=1", "model.rope.theta = 1: must be > 1"},
        Refusal{"model.window.last_full=false", "model.window.size is 0"},
        Refusal{"batch.micro_sequences=5", "batch.micro_sequences = 5: a step has at most 4"},
        Refusal{"data.eval=[\"e\"]", "data.tokenizer is missing"},
        Refusal{"checkpoint.keep=0", "checkpoint.keep = 0: must be >= 1"},
        Refusal{"model.dense_layers=3", "model.dense_layers = 3: must be 0 ... 2"},
        Refusal{"model.window.pattern=[\"window\"]", "model.window.size = 0"},
        Refusal{"model.window.pattern=[]", "must name at least one layer type"},
        Refusal{"model.window.pattern=[\"win\"]", "must be one of window, full"},
        Refusal{"optim.phases=[{steps = 3}]", "run.max_steps = 10, but optim.phases have 3 steps"},
        Refusal{"optim.phases=[{lr = 1.0}, {steps = 3}]", "only the last phase"},
        Refusal{"optim.phases=[{tokens = 150}]",
                "run.max_steps = 10, but optim.phases have 3 steps"},
        Refusal{"optim.phases=[{tokens = 33, steps = 3}]", "optim.phases[0]"},
        Refusal{"optim.decay_shape=cubic",
                "optim.decay_shape = \"cubic\": must be one of linear, one_minus_sqrt"},
        Refusal{"optim.phases=[{steps = 0}]", "optim.phases[0].steps = 0: must be"},
        Refusal{"optim.phases=[{batch_tokens = 17}]", "a step of 17 tokens is no multiple"},
        Refusal{"optim.phases=[3]", "optim.phases[0]: expected a table"}));

TEST(ConfigFile, WhatOneProcessDoesIsAcceptedBySayingSo) {
  const Config config =
      small_with({"parallel.pipeline=1", "parallel.context=1", "parallel.split=[]",
                  "moe.overflow=replay", "moe.capacity=auto", "moe.groups=1",
                  "moe.shared_gate=false", "memory.recompute=none", "precision.exchange=fp32",
                  "device.kind=cpu", "checkpoint.async=false", "precision.scale_rule=ceil"});
  EXPECT_EQ(to_toml(config), to_toml(parse(kSmall)));
}

TEST(ConfigFile, LengthIsRequired) {
  std::string text = kSmall;
  text.erase(text.find("max_steps = 10\n"), 15);
  EXPECT_THAT(message_of([&] { parse(text); }),
              HasSubstr("run.max_steps or run.max_tokens is missing"));
  EXPECT_EQ(parse(text, {"run.max_tokens=100"}).run.max_tokens, 100);
}

TEST(ConfigFile, ZeroStepsNeedNoTrainingData) {
  EXPECT_EQ(small_with({"run.max_steps=0", "data.train=[]"}).run.max_steps, 0);
}

TEST(ConfigFile, PhasesTakeFromOptimWhatTheyDoNotSay) {
  const Config config =
      small_with({"optim.warmup=2", "optim.schedule=linear",
                  "optim.phases=[{steps = 4, batch_tokens = 32}, {lr = 5e-4, schedule = \"wsd\", "
                  "decay_shape = \"one_minus_sqrt\"}]"});
  ASSERT_EQ(config.optim.phases.size(), 2U);
  const optim::Phase& first = config.optim.phases[0];
  EXPECT_EQ(first.steps, 4);
  EXPECT_EQ(first.lr, 1e-3);
  EXPECT_EQ(first.warmup, 2);
  EXPECT_EQ(first.batch_tokens, 32);
  EXPECT_EQ(first.schedule, optim::ScheduleKind::kLinear);
  const optim::Phase& second = config.optim.phases[1];
  EXPECT_FALSE(second.steps.has_value());
  EXPECT_EQ(second.lr, 5e-4);
  EXPECT_EQ(second.warmup, 2);
  EXPECT_EQ(second.schedule, optim::ScheduleKind::kWsd);
  EXPECT_EQ(first.decay_shape, optim::DecayShape::kLinear);
  EXPECT_EQ(second.decay_shape, optim::DecayShape::kOneMinusSqrt);
}

TEST(ConfigFile, PhasesByTokens) {
  const std::vector<std::string> phases = {
      "run.max_steps=6", "optim.phases=[{tokens = 33, batch_tokens = 16}, {lr = 5e-4}]"};
  const Config config = small_with(phases);
  EXPECT_EQ(config.optim.phases[0].tokens, 33);
  EXPECT_EQ(config.optim.phases, parse(to_toml(config)).optim.phases);
  EXPECT_THAT(
      message_of([] {
        small_with({"run.max_steps=1", "run.max_tokens=100", "optim.phases=[{tokens = 33}]"});
      }),
      HasSubstr("run.max_tokens = 100, but optim.phases have 64 tokens in all"));
}

/// A value unlike the default for every key that is kept.
const std::vector<std::string>& unlike_defaults() {
  static const std::vector<std::string> arguments = {
      "run.dir=\"runs/x \\\"y\\\"\"",
      "run.name=n",
      "run.seed=7",
      "run.log_level=debug",
      "run.log_every=3",
      "run.max_steps=99",
      "run.max_tokens=123456",
      "run.timeout_s=45",
      "run.trace=[2, 5]",
      "model.family=olmo3_moe",
      "model.d_model=96",
      "model.layers=6",
      "model.heads=6",
      "model.kv_heads=3",
      "model.head_dim=10",
      "model.vocab=300",
      "model.norm=output",
      "model.norm_eps=3e-7",
      "model.qk_norm=none",
      "model.rope.theta=12345.678",
      "model.rope.yarn_factor=4",
      "model.rope.yarn_original_length=8",
      "model.rope.yarn_beta_fast=31.5",
      "model.rope.yarn_beta_slow=1.5",
      "model.rope.yarn_layers=all",
      "model.window.size=5",
      "model.window.pattern=[\"full\", \"window\", \"window\"]",
      "model.window.last_full=false",
      "model.dense_layers=2",
      "model.ffn_hidden=77",
      "model.tied=true",
      "model.embed_scale=0.1",
      "model.embed_norm=true",
      "model.init_std=0.03",
      "moe.experts=12",
      "moe.top_k=5",
      "moe.expert_hidden=33",
      "moe.shared_hidden=11",
      "moe.gate=sigmoid",
      "moe.weights=sum_to_one",
      "moe.scale=2.5",
      "moe.balance_loss=0.3",
      "moe.balance_scope=step",
      "moe.z_loss=0.7",
      "moe.bias_update=0.01",
      "moe.routing=random",
      "parallel.expert=3",
      "parallel.exchange=all_to_all",
      "parallel.params=resharded",
      "parallel.reshard=step",
      "parallel.prefetch=true",
      "data.tokenizer=t.json",
      "data.train=[\"a\", \"b\"]",
      "data.eval=[\"c\"]",
      "data.sequence_length=24",
      "data.packing=documents",
      "data.mix=[0.25, 3]",
      "optim.lr=0.1",
      "optim.schedule=wsd",
      "optim.warmup=5",
      "optim.final_fraction=0.3",
      "optim.decay_fraction=0.4",
      "optim.decay_shape=one_minus_sqrt",
      "optim.betas=[0.7, 0.8]",
      "optim.eps=1e-7",
      "optim.weight_decay=0.2",
      "optim.clip=0.5",
      "optim.skip_sigma=6",
      "optim.head_z_loss=1e-4",
      "optim.max_nonfinite=3",
      "optim.groups=[{match = \"*.router.*\", lr_scale = 0.5, weight_decay = 0.0}, {match = "
      "\"a\"}]",
      "batch.tokens=240",
      "batch.micro_sequences=2",
      "precision.compute=fp64",
      "memory.budget_gib=1.5",
      "memory.head_chunk=17",
      "checkpoint.every=4",
      "checkpoint.async=true",
      "checkpoint.keep=9",
      "checkpoint.load=runs/c",
      "checkpoint.load_optimizer=false",
      "eval.every=2",
      "eval.tokens=48",
      "device.threads=3"};
  return arguments;
}

/// Every key that is kept, as TOML.
std::string all_values(const Config& config) {
  std::string text;
  for (const ConfigKey& key : config_keys()) {
    if (key.write) text += key.name + " = " + key.write(config) + "\n";
  }
  return text;
}

TEST(ConfigFile, ResolvedTextReadsBackToAnEqualConfig) {
  const Config config = small_with(unlike_defaults());
  const Config again = parse(to_toml(config));
  EXPECT_EQ(all_values(config), all_values(again));
  EXPECT_EQ(config.optim.phases, again.optim.phases);
  EXPECT_EQ(config.optim.groups, again.optim.groups);
  EXPECT_EQ(config.run.dir, again.run.dir);
  EXPECT_EQ(config.model.rope.theta, again.model.rope.theta);

  const Config small = parse(kSmall);
  EXPECT_EQ(all_values(small), all_values(parse(to_toml(small))));
  const Config olmo3 = small_with({"model.family=olmo3_moe", "model.ffn_hidden=128"});
  EXPECT_EQ(all_values(olmo3), all_values(parse(to_toml(olmo3))));
  const Config phases = small_with({"optim.phases=[{steps = 4, batch_tokens = 32}, {lr = 5e-4}]"});
  EXPECT_EQ(phases.optim.phases, parse(to_toml(phases)).optim.phases);
}

TEST(ConfigFile, AModelWithoutExpertsHasNoKeysOfThem) {
  const std::vector<std::string> dense = {"model.dense_layers=2", "model.ffn_hidden=48"};
  EXPECT_THAT(message_of([&] { parse(kSmall, dense); }),
              HasSubstr("moe.experts = 8: has no effect, since every layer is dense"));
  std::string text = kSmall;
  const auto begin = text.find("[moe]");
  text.erase(begin, text.find("[data]") - begin);
  for (const char* family : {"model.family=olmoe", "model.family=olmo3_moe"}) {
    std::vector<std::string> overrides = dense;
    overrides.emplace_back(family);
    const Config config = parse(text, overrides);
    EXPECT_EQ(all_values(config), all_values(parse(to_toml(config)))) << family;
  }
}

TEST(ConfigFile, EveryKeptKeyReachesTheConfigAndComesBack) {
  // A key that reads into another's member, or into none, shows here.
  const Config config = small_with(unlike_defaults());
  Config defaults;
  defaults.model = model::family_defaults("olmoe");
  defaults.optim.phases = {optim::Phase{}};
  std::set<std::string> given;
  for (const std::string& argument : unlike_defaults()) {
    given.insert(argument.substr(0, argument.find('=')));
  }
  given.insert("optim.phases");  // has a test of its own
  for (const ConfigKey& key : config_keys()) {
    if (!key.write) continue;
    EXPECT_TRUE(given.contains(key.name)) << key.name << " is not in the test's list";
    if (key.name == "optim.phases") continue;
    EXPECT_NE(key.write(config), key.write(defaults)) << key.name;
    EXPECT_NE(key.write(config), "") << key.name;
  }
}

TEST(ConfigFile, LoadsAFile) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "ulmus_config_file_test.toml";
  write_file_atomically(path, kSmall);
  const std::vector<std::string> overrides = {"moe.top_k=1"};
  EXPECT_EQ(load_config(path, overrides).model.moe.top_k, 1);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ulmus::train
