#include "ulmus/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/message_of.h"

namespace ulmus::model {
namespace {

using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig small(const std::string& family) {
  ModelConfig config = family_defaults(family);
  config.d_model = 64;
  config.layers = 4;
  config.heads = 8;
  config.vocab = 256;
  config.ffn_hidden = config.dense_layers > 0 ? 128 : 0;
  config.moe.experts = 8;
  config.moe.top_k = 2;
  config.moe.expert_hidden = 32;
  return config;
}

TEST(ModelConfig, DerivesWhatOlmoeLeavesOpen) {
  ModelConfig config = small("olmoe");
  config.fill_derived();
  config.validate();
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_EQ(config.embed_scale, 1.0);
  EXPECT_EQ(config.moe.shared_hidden, 0);
  EXPECT_THAT(config.window.pattern, ElementsAre(LayerType::kFull));
}

TEST(ModelConfig, DerivesWhatOlmo3MoeLeavesOpen) {
  ModelConfig config = small("olmo3_moe");
  config.fill_derived();
  config.validate();
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.embed_scale, 8.0);
  EXPECT_EQ(config.moe.shared_hidden, 32);
  EXPECT_EQ(config.window_of(0), 0);
  EXPECT_TRUE(config.is_dense(0));
  EXPECT_FALSE(config.is_dense(1));

  ModelConfig odd = small("olmo3_moe");
  odd.heads = 2;  // no quarter of it
  odd.fill_derived();
  EXPECT_EQ(odd.kv_heads, 2);
}

TEST(ModelConfig, KeepsWhatWasSet) {
  ModelConfig config = small("olmo3_moe");
  config.kv_heads = 4;
  config.head_dim = 6;
  config.embed_scale = 3.0;
  config.moe.shared_hidden = 0;
  config.fill_derived();
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 6);
  EXPECT_EQ(config.embed_scale, 3.0);
  EXPECT_EQ(config.moe.shared_hidden, 0);
}

TEST(ModelConfig, WindowsAlternateAndTheLastLayerIsFull) {
  ModelConfig config = small("olmo3_moe");
  config.layers = 5;
  config.window.size = 16;
  config.fill_derived();
  config.validate();
  std::vector<std::int64_t> windows;
  for (int layer = 0; layer < config.layers; ++layer) {
    windows.push_back(config.window_of(layer));
  }
  EXPECT_THAT(windows, ElementsAre(16, 0, 16, 0, 0));
  config.window.last_full = false;
  EXPECT_EQ(config.window_of(4), 16);
}

TEST(ModelConfig, YarnStretchesFullLayersOnlyUnlessAllAreNamed) {
  ModelConfig config = small("olmoe");
  config.rope.yarn_factor = 8.0;
  config.rope.yarn_original_length = 4096;
  EXPECT_EQ(config.rope_of(LayerType::kFull).factor, 8.0);
  EXPECT_EQ(config.rope_of(LayerType::kFull).original_length, 4096.0);
  EXPECT_EQ(config.rope_of(LayerType::kWindow).factor, 1.0);
  config.rope.yarn_layers = YarnLayers::kAll;
  EXPECT_EQ(config.rope_of(LayerType::kWindow).factor, 8.0);
}

TEST(ModelConfig, UnknownAndPlannedFamiliesAreRefusedByName) {
  EXPECT_THAT(message_of([] { family_defaults("olmo"); }), HasSubstr("olmoe, olmo3_moe"));
  EXPECT_THAT(message_of([] { family_defaults("olmoo"); }), HasSubstr("did you mean \"olmoe\""));
  EXPECT_THAT(message_of([] { family_defaults("mixtral"); }),
              HasSubstr("model.family = \"mixtral\" is not built yet; built: olmoe, olmo3_moe"));
}

struct BadCase {
  std::string name;
  void (*spoil)(ModelConfig&);
  std::string message;
};
void PrintTo(const BadCase& bad_case, std::ostream* out) { *out << bad_case.name; }

class BadModelConfig : public testing::TestWithParam<BadCase> {};

TEST_P(BadModelConfig, NamesKeyAndValue) {
  ModelConfig config = small("olmoe");
  GetParam().spoil(config);
  EXPECT_THAT(message_of([&] {
                config.fill_derived();
                config.validate();
              }),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadModelConfig,
    testing::Values(
        BadCase{"NoWidth", [](ModelConfig& c) { c.d_model = 0; },
                "model.d_model = 0: must be 1 ... "},
        BadCase{"HugeWidth", [](ModelConfig& c) { c.d_model = std::int64_t{1} << 60; },
                "model.d_model = 1152921504606846976"},
        BadCase{"NoLayers", [](ModelConfig& c) { c.layers = 0; }, "model.layers = 0"},
        BadCase{"NoHeads", [](ModelConfig& c) { c.heads = 0; }, "model.heads = 0"},
        BadCase{"HeadsDoNotDivideWidth", [](ModelConfig& c) { c.heads = 7; },
                "model.d_model = 64 is not a multiple of model.heads = 7"},
        BadCase{"KvHeadsDoNotDivideHeads", [](ModelConfig& c) { c.kv_heads = 3; },
                "model.heads = 8 is not a multiple of model.kv_heads = 3"},
        BadCase{"MoreKvHeads", [](ModelConfig& c) { c.kv_heads = 16; },
                "model.kv_heads = 16: must be 1 ... 8"},
        BadCase{"OddHeadDim", [](ModelConfig& c) { c.head_dim = 7; }, "model.head_dim = 7"},
        BadCase{"NoVocab", [](ModelConfig& c) { c.vocab = 0; }, "model.vocab = 0"},
        BadCase{"NoEps", [](ModelConfig& c) { c.norm_eps = 0.0; }, "model.norm_eps = 0"},
        BadCase{"NanScale", [](ModelConfig& c) { c.embed_scale = std::nan(""); },
                "model.embed_scale = nan"},
        BadCase{"DenseBeyondLayers", [](ModelConfig& c) { c.dense_layers = 5; },
                "model.dense_layers = 5: must be 0 ... 4"},
        BadCase{"DenseWithoutHidden", [](ModelConfig& c) { c.dense_layers = 1; },
                "model.ffn_hidden: needed for the dense layers (model.dense_layers = 1)"},
        BadCase{"HiddenWithoutDense", [](ModelConfig& c) { c.ffn_hidden = 5; },
                "model.ffn_hidden = 5: no layer uses it"},
        BadCase{"PatternWithoutSize",
                [](ModelConfig& c) { c.window.pattern = {LayerType::kWindow}; },
                "model.window.size = 0"},
        BadCase{"SizeWithoutPattern", [](ModelConfig& c) { c.window.size = 9; },
                "model.window.size = 9: no layer uses it"},
        BadCase{"YarnWithoutLength", [](ModelConfig& c) { c.rope.yarn_factor = 4.0; },
                "model.rope.yarn_original_length"},
        BadCase{"YarnShrinks", [](ModelConfig& c) { c.rope.yarn_factor = 0.5; },
                "model.rope.yarn_factor = 0.5"},
        BadCase{"YarnBetas", [](ModelConfig& c) { c.rope.yarn_beta_fast = 0.5; },
                "model.rope.yarn_beta_fast = 0.5"},
        BadCase{"NoExperts", [](ModelConfig& c) { c.moe.experts = 0; }, "moe.experts = 0"},
        BadCase{"TopKAboveExperts", [](ModelConfig& c) { c.moe.top_k = 9; },
                "moe.top_k = 9: must be 1 ... moe.experts = 8"},
        BadCase{"NegativeBalance", [](ModelConfig& c) { c.moe.balance_loss = -1.0; },
                "moe.balance_loss = -1"},
        BadCase{"NoScale", [](ModelConfig& c) { c.moe.rule.scale = 0.0; }, "moe.scale = 0"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace ulmus::model
