#include <algorithm>
#include <cmath>
#include <numeric>

#include "ulmus/base/philox.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/decoder.h"
#include "ulmus/train/run.h"
#include "ulmus/train/token_data.h"

namespace ulmus::train {

namespace {

/// Config of the run that a checkpoint belongs to: RUN/checkpoints/step-N.
Config config_of_checkpoint(const std::filesystem::path& checkpoint) {
  const auto run = std::filesystem::absolute(checkpoint).lexically_normal();
  const auto folder = run.has_filename() ? run : run.parent_path();
  const auto path = folder.parent_path().parent_path() / "config.toml";
  if (!std::filesystem::exists(path)) {
    fail_input(checkpoint.string(), " is not in a run folder: ", path.string(),
               ", which describes its model, does not exist");
  }
  return load_config(path, {});
}

}  // namespace

std::int32_t sample_token(std::vector<float>& logits, double temperature, double top_p,
                          double uniform) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0.0) return static_cast<std::int32_t>(best - logits.begin());
  std::vector<double> weights;
  weights.reserve(logits.size());
  for (const float logit : logits) {
    weights.push_back(
        std::exp((static_cast<double>(logit) - static_cast<double>(*best)) / temperature));
  }
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return weights[static_cast<std::size_t>(a)] > weights[static_cast<std::size_t>(b)];
  });
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0.0;
  std::size_t num_kept = 0;
  while (num_kept < order.size() && (num_kept == 0 || kept < top_p * total)) {
    kept += weights[static_cast<std::size_t>(order[num_kept++])];
  }
  double left = uniform * kept;
  for (std::size_t i = 0; i < num_kept; ++i) {
    left -= weights[static_cast<std::size_t>(order[i])];
    if (left < 0.0) return order[i];
  }
  return order[num_kept - 1];
}

std::string generate(const GenerateOptions& options, Reporter& reporter) {
  if (options.temperature < 0.0) fail_input("--temperature ", options.temperature, ", at least 0");
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) {
    fail_input("--top-p ", options.top_p, ", allowed is 0 < P <= 1");
  }
  if (options.tokens < 1) fail_input("--tokens ", options.tokens, ", at least 1");
  Config config = config_of_checkpoint(options.checkpoint);
  const std::filesystem::path path = options.tokenizer.value_or(config.data.tokenizer);
  if (path.empty()) fail_input("the run has no data.tokenizer: give --tokenizer");
  const data::Tokenizer tokenizer = load_tokenizer(path, config.model);
  std::vector<std::int32_t> tokens;
  if (tokenizer.end_of_text_id() >= 0) tokens.push_back(tokenizer.end_of_text_id());
  tokenizer.encode(options.prompt, tokens, data::SpecialText::kRecognise);
  if (tokens.empty()) fail_input("--prompt is empty, and the tokenizer has no end-of-text token");
  const auto prompt_length = static_cast<std::int64_t>(tokens.size());
  Decoder decoder(config, prompt_length, prompt_length + options.tokens);
  decoder.load(options.checkpoint, tokenizer.fingerprint());
  reporter.info(
      concat("weights of ", options.checkpoint.string(), ", ", prompt_length, " tokens of prompt"));
  const PhiloxKey key = philox_key(options.seed, RandomPurpose::kSampling, "generate");
  std::vector<std::int32_t> written;
  std::span<const std::int32_t> next(tokens);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const PhiloxCounter bits =
        philox(key, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0});
    std::vector<float>& logits = decoder.append(next);
    // Ids that pad the model's vocabulary stand for no text.
    logits.resize(static_cast<std::size_t>(tokenizer.vocab_size()));
    const std::int32_t token =
        sample_token(logits, options.temperature, options.top_p, uniform_double(bits[0], bits[1]));
    if (token == tokenizer.end_of_text_id()) break;
    written.push_back(token);
    next = std::span<const std::int32_t>(&written.back(), 1);
  }
  return tokenizer.decode(written);
}

}  // namespace ulmus::train
