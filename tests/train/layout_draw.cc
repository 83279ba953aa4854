#include "tests/train/layout_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "ulmus/train/config_file.h"

namespace ulmus::test {

namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

constexpr int kMaxRanks = 6;
constexpr std::int64_t kMaxTokens = 160;  // of a step: a case takes about a second
constexpr std::size_t kLayoutsOfCase = 4;

/// The lines of a configuration.
class Keys {
 public:
  template <class Value>
  void set(std::string_view key, const Value& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }
  void set_word(std::string_view key, const std::string& word) {
    text_ += fmt::format("{} = \"{}\"\n", key, word);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// What later draws must know of earlier ones.
struct Shape {
  int ranks = 1;
  bool is_fp32 = false;
  std::int64_t layers = 1;
  bool has_experts = true;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  bool has_bias = false;
};

void draw_attention(Dice& dice, const Shape& shape, Keys& keys) {
  const std::int64_t kv_heads = dice.between(1, 3);
  keys.set("model.kv_heads", kv_heads);
  keys.set("model.heads", kv_heads * dice.between(1, 3));
  keys.set("model.head_dim", dice.one_of<std::int64_t>({2, 4, 6, 10, 16}));
  keys.set_word("model.qk_norm", dice.one_of<std::string>({"none", "head", "full"}));
  if (dice.chance(30)) {
    // Not 1: a token that sees only itself has no gradient in queries and keys, only its rounding.
    keys.set("model.window.size", dice.one_of<std::int64_t>({2, 3, 5, 20}));
    keys.set("model.window.pattern",
             dice.one_of<std::string>({"[\"window\"]", "[\"window\", \"full\"]"}));
    keys.set("model.window.last_full", shape.layers > 1 && dice.chance(50));
  }
  if (dice.chance(20)) {
    keys.set("model.rope.yarn_factor", "4.0");
    keys.set("model.rope.yarn_original_length", 8);
    keys.set_word("model.rope.yarn_layers", "all");
  }
}

void draw_model(Dice& dice, Shape& shape, Keys& keys) {
  keys.set_word("model.family", dice.one_of<std::string>({"olmoe", "olmo3_moe"}));
  // Not 1: a norm over one channel is a sign, whose gradient is rounding.
  keys.set("model.d_model", dice.one_of<std::int64_t>({6, 10, 16, 24, 33, 40, 64}));
  // With a handful of tokens attention compares nearly equal values: fp32 keeps few of the digits.
  const Numbers vocabs = shape.is_fp32 ? Numbers{31, 97, 130} : Numbers{2, 3, 31, 97, 130};
  keys.set("model.vocab", dice.one_of(vocabs));
  shape.layers = dice.between(1, 3);
  const std::int64_t dense = dice.chance(10) ? shape.layers : dice.between(0, shape.layers - 1);
  shape.has_experts = dense < shape.layers;
  keys.set("model.layers", shape.layers);
  keys.set("model.dense_layers", dense);
  if (dense > 0) keys.set("model.ffn_hidden", dice.one_of<std::int64_t>({5, 24, 70}));
  draw_attention(dice, shape, keys);
  keys.set_word("model.norm", dice.one_of<std::string>({"pre", "output", "peri"}));
  keys.set("model.tied", dice.chance(40));
  keys.set("model.embed_norm", dice.chance(50));
  keys.set("model.embed_scale", dice.one_of<std::string>({"0.5", "1.0", "8.0"}));
  const Words stds = shape.is_fp32 ? Words{"0.01", "0.02", "0.05"} : Words{"0.01", "0.05", "0.3"};
  keys.set("model.init_std", dice.one_of(stds));
}

void draw_objective(Dice& dice, Shape& shape, Keys& keys) {
  const std::string weights = dice.one_of<std::string>({"raw", "sum_to_one", "sum_to_k"});
  keys.set_word("moe.gate", dice.one_of<std::string>({"softmax", "sigmoid"}));
  keys.set_word("moe.weights", weights);
  keys.set("moe.scale", dice.one_of<std::string>({"1.0", "2.5"}));
  keys.set_word("moe.routing",
                dice.one_of<std::string>({"learned", "learned", "learned", "random", "uniform"}));
  keys.set_word("moe.balance_scope", dice.one_of<std::string>({"sequence", "micro_batch", "step"}));
  keys.set("moe.balance_loss", dice.one_of<std::string>({"0.0", "0.02", "0.5"}));
  // A single expert of a token has weight 1, whatever the logits: without a z-loss nothing would
  // pull at the router but a balance loss that may be flat, and its gradient be rounding.
  const bool needs_z = shape.top_k == 1 && (weights != "raw" || shape.experts == 1);
  keys.set("moe.z_loss", needs_z ? "0.001" : dice.one_of<std::string>({"0.0", "0.001", "0.1"}));
  shape.has_bias = dice.chance(60);
  keys.set("moe.bias_update",
           shape.has_bias ? dice.one_of<std::string>({"0.001", "0.5"}) : std::string("0.0"));
}

void draw_experts(Dice& dice, Shape& shape, Keys& keys) {
  // Half the time a number that all ranks or some of them can share.
  shape.experts = dice.chance(50) ? shape.ranks * dice.between(1, 4)
                                  : dice.one_of<std::int64_t>({1, 2, 3, 5, 6, 7, 9, 10, 12, 15});
  shape.top_k = std::min(shape.experts,
                         dice.one_of<std::int64_t>({1, 2, 3, shape.experts, dice.between(1, 20)}));
  keys.set("moe.experts", shape.experts);
  keys.set("moe.top_k", shape.top_k);
  keys.set("moe.expert_hidden", dice.one_of<std::int64_t>({1, 3, 8, 17, 40, 80}));
  keys.set("moe.shared_hidden", dice.one_of<std::int64_t>({0, 9, 32}));
  draw_objective(dice, shape, keys);
}

void draw_batch(Dice& dice, const Shape& shape, Keys& keys) {
  const Numbers lengths = shape.is_fp32 ? Numbers{7, 16, 33} : Numbers{1, 2, 3, 7, 16, 33};
  const std::int64_t length = dice.one_of(lengths);
  const std::int64_t sequences = dice.between(1, std::min<std::int64_t>(13, kMaxTokens / length));
  keys.set("data.sequence_length", length);
  keys.set("batch.tokens", sequences * length);
  keys.set("batch.micro_sequences",
           dice.chance(50) ? std::min<std::int64_t>(sequences, 2) : dice.between(1, sequences));
  keys.set("memory.head_chunk", dice.one_of<std::int64_t>({1, 7, 256}));
}

void draw_optimizer(Dice& dice, const Shape& shape, Keys& keys) {
  // The tolerances of fp32 are for learning rates up to that of configs/parity.toml: what rounding
  // does to the first update shows in the second gradient.
  const Words rates = shape.is_fp32 ? Words{"0.0001", "0.0003"} : Words{"0.0001", "0.003"};
  keys.set("optim.lr", dice.one_of(rates));
  // Above the rounding of the gradients, so that the sign of one that is nearly 0 decides nothing.
  keys.set("optim.eps", shape.is_fp32 ? "1e-6" : dice.one_of<std::string>({"1e-6", "1e-4"}));
  keys.set("optim.weight_decay", dice.one_of<std::string>({"0.0", "0.1"}));
  const Words clips = shape.is_fp32 ? Words{"0.5", "1.0"} : Words{"0.0", "0.1", "1.0"};
  keys.set("optim.clip", dice.one_of(clips));
  keys.set("optim.skip_sigma", dice.one_of<std::string>({"0.0", "6.0"}));
  keys.set("optim.head_z_loss", dice.one_of<std::string>({"0.0", "0.0001"}));
}

/// Router state of a run that has gone wrong: every token to `favoured` experts from `first` on,
/// and the step before all to one.
class SkewedRouters {
 public:
  SkewedRouters(std::int64_t first, std::int64_t favoured) : first_(first), favoured_(favoured) {}

  void operator()(train::Runtime& runtime) const {
    for (const model::Block& block : runtime.language_model().blocks()) {
      if (!block.is_moe()) continue;
      const nn::Router::Buffers& buffers = block.router().buffers();
      const auto experts = static_cast<std::size_t>(buffers.bias.numel());
      std::vector<double> bias(experts, 0.0);
      std::vector<std::int64_t> counts(experts, 0);
      for (std::int64_t i = 0; i < favoured_; ++i)
        bias[static_cast<std::size_t>(first_ + i) % experts] = kFarAboveScores;
      counts[static_cast<std::size_t>(first_)] = 100;
      const std::vector<float> rounded(bias.begin(), bias.end());
      if (buffers.bias.dtype() == DType::kF64) {
        runtime.device().copy_to_device(buffers.bias, std::span<const double>(bias));
      } else {
        runtime.device().copy_to_device(buffers.bias, std::span<const float>(rounded));
      }
      runtime.device().copy_to_device(buffers.previous_counts,
                                      std::span<const std::int64_t>(counts));
    }
  }

 private:
  static constexpr double kFarAboveScores = 8.0;
  std::int64_t first_;
  std::int64_t favoured_;
};

void draw_scene(Dice& dice, const Shape& shape, DrawnCase& drawn) {
  train::ParityData& data = drawn.scene.data;
  data.mean_document = dice.one_of<std::int64_t>({4, 11, 1000});
  data.padded_every = dice.between(0, 3);
  data.padding = dice.one_of<double>({0.25, 0.5, 0.9, 1.0});
  data.repeated = !shape.is_fp32 && dice.chance(30) ? 0.8 : 0.0;
  drawn.scene_text =
      fmt::format("documents of {} tokens, one of {} sequences {} padding, {} of the tokens equal",
                  data.mean_document, data.padded_every, data.padding, data.repeated);
  if (!shape.has_experts || !shape.has_bias || !dice.chance(60)) return;
  const std::int64_t first = dice.between(0, shape.experts - 1);
  const std::int64_t favoured = dice.chance(50) ? shape.top_k : dice.between(1, shape.experts);
  drawn.scene.before_steps = SkewedRouters(first, favoured);
  drawn.scene_text +=
      fmt::format("; {} experts from {} on are favoured by their bias", favoured, first);
}

/// Whether a token that bears loss sees another kind of token.
bool has_contrast(const data::HostBatch& batch, std::int64_t window) {
  for (std::int64_t at = 0; at < std::ssize(batch.tokens); ++at) {
    if (batch.targets[static_cast<std::size_t>(at)] < 0) continue;
    const std::int64_t pos = at % batch.sequence_length;
    std::int64_t key = batch.document_begin[static_cast<std::size_t>(at)];
    if (window > 0) key = std::max(key, pos - window + 1);
    for (; key < pos; ++key) {
      const auto before = static_cast<std::size_t>(at - pos + key);
      if (batch.tokens[before] != batch.tokens[static_cast<std::size_t>(at)]) return true;
    }
  }
  return false;
}

/// Whether no token sees another one.
bool is_without_context(const data::HostBatch& batch) {
  return batch.attended_pairs(0, batch.num_sequences, 0) == batch.valid_tokens;
}

/// Attention over equal values is the same whatever queries and keys are: their gradients are 0 in
/// truth, in fact the rounding of a difference, and a comparison relative to their size means
/// nothing. With a single key f64 has a true 0.
bool has_defined_gradients(const DrawnCase& drawn) {
  for (const std::int64_t step : {0, 1}) {
    const data::HostBatch batch = train::parity_step(drawn.config, step, drawn.scene.data);
    const bool is_fp64 = drawn.config.compute == train::Compute::kFp64;
    if (is_fp64 && is_without_context(batch)) continue;
    if (!has_contrast(batch, drawn.config.model.window.size)) return false;
  }
  return true;
}

/// One of the layouts that share the experts most, and others.
void draw_layouts(Dice& dice, DrawnCase& drawn) {
  std::vector<train::ParityLayout> legal = train::parity_layouts(drawn.config, drawn.ranks);
  std::erase_if(legal,
                [](const train::ParityLayout& layout) { return layout.refusal.has_value(); });
  for (std::size_t i = legal.size(); i > 1; --i)
    std::swap(legal[i - 1], legal[static_cast<std::size_t>(dice.between(0, std::int64_t(i) - 1))]);
  const auto shared = [](const train::ParityLayout& layout) { return layout.keys.expert; };
  std::iter_swap(legal.begin(), std::ranges::max_element(legal, {}, shared));
  for (std::size_t i = 0; i < std::min(kLayoutsOfCase, legal.size()); ++i)
    drawn.layouts.push_back(legal[i].name);
}

}  // namespace

Dice::Dice(std::uint32_t seed, int number, int attempt) {
  std::seed_seq words = {seed, static_cast<std::uint32_t>(number),
                         static_cast<std::uint32_t>(attempt)};
  engine_.seed(words);
}

std::int64_t Dice::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
}

namespace {

DrawnCase draw_attempt(Dice& dice, int number) {
  DrawnCase drawn;
  Shape shape;
  Keys keys;
  drawn.ranks = static_cast<int>(dice.between(1, kMaxRanks));
  shape.ranks = drawn.ranks;
  shape.is_fp32 = dice.chance(30);
  keys.set("run.max_steps", 0);
  keys.set("run.seed", number);
  keys.set_word("precision.compute", shape.is_fp32 ? "fp32" : "fp64");
  keys.set("device.threads", dice.chance(80) ? 1 : 2);
  draw_model(dice, shape, keys);
  if (shape.has_experts) draw_experts(dice, shape, keys);
  draw_batch(dice, shape, keys);
  draw_optimizer(dice, shape, keys);
  draw_scene(dice, shape, drawn);
  drawn.toml = keys.text();
  drawn.config = train::parse_config(drawn.toml, fmt::format("case {}", number), {});
  draw_layouts(dice, drawn);
  return drawn;
}

}  // namespace

DrawnCase draw_case(std::uint32_t seed, int number) {
  for (int attempt = 0;; ++attempt) {
    Dice dice(seed, number, attempt);
    DrawnCase drawn = draw_attempt(dice, number);
    if (has_defined_gradients(drawn)) return drawn;
  }
}

}  // namespace ulmus::test
