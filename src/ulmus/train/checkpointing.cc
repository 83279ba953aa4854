#include "ulmus/train/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ctime>
#include <utility>

#include "ulmus/train/config_file.h"
#include "ulmus/train/run_folder.h"
#include "ulmus/train/token_data.h"

namespace ulmus::train {

namespace {

/// The tokenizer's fingerprint among the manifest's integers.
constexpr std::string_view kTokenizerKey = "data.tokenizer.xxh3_64";

constexpr std::int64_t kStagingBytes = std::int64_t{4} << 20U;

std::string router_key(int layer, std::string_view part) {
  return fmt::format("layers.{}.moe.router.{}", layer, part);
}

/// Calls visit(layer, buffers) for every mixture layer.
template <class Visit>
void for_each_router(const model::LanguageModel& model, const Visit& visit) {
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const model::Block& block = model.blocks()[static_cast<std::size_t>(layer)];
    if (block.is_moe()) visit(layer, block.router().buffers());
  }
}

template <class T>
const std::vector<T>& named_vector(const std::map<std::string, std::vector<T>>& vectors,
                                   const std::string& name, std::int64_t size) {
  const auto found = vectors.find(name);
  if (found == vectors.end()) fail_input("the checkpoint has no ", name);
  if (static_cast<std::int64_t>(found->second.size()) != size) {
    fail_input("the checkpoint's ", name, " has ", found->second.size(), " numbers, not ", size);
  }
  return found->second;
}

/// The bias is in the model's dtype; the manifest keeps it in f64, which holds every f32 exactly.
std::vector<double> read_bias(ConstTensorView bias, Device& device) {
  const auto n = static_cast<std::size_t>(bias.numel());
  if (bias.dtype() == DType::kF64) {
    std::vector<double> values(n);
    device.copy_to_host(std::span(values), bias);
    return values;
  }
  std::vector<float> values(n);
  device.copy_to_host(std::span(values), bias);
  return {values.begin(), values.end()};
}

void copy_bias(TensorView bias, const std::vector<double>& values, Device& device) {
  if (bias.dtype() == DType::kF64) {
    device.copy_to_device(bias, std::span<const double>(values));
  } else {
    const std::vector<float> rounded(values.begin(), values.end());
    device.copy_to_device(bias, std::span<const float>(rounded));
  }
}

void check_tokenizer(const checkpoint::Manifest& manifest, std::optional<std::uint64_t> tokenizer,
                     const std::filesystem::path& dir) {
  const auto found = manifest.integers.find(std::string(kTokenizerKey));
  if (!tokenizer || found == manifest.integers.end() || found->second.size() != 1) return;
  const auto trained_with = std::bit_cast<std::uint64_t>(found->second.front());
  if (trained_with == *tokenizer) return;
  fail_input(dir.string(), " was trained with another tokenizer (xxh3_64 ",
             data::hash_text(trained_with), ") than the one given (", data::hash_text(*tokenizer),
             ")");
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace

std::vector<checkpoint::TensorRef> parameter_refs(const model::LanguageModel& model) {
  std::vector<checkpoint::TensorRef> refs;
  for (const nn::Parameter& parameter : model.parameters().all()) {
    refs.push_back({.name = parameter.name,
                    .file_group = checkpoint::file_group_of(parameter.name),
                    .view = parameter.value,
                    .slice_elements = parameter.slice_elements});
  }
  return refs;
}

std::vector<checkpoint::TensorRef> training_refs(Runtime& runtime) {
  std::vector<checkpoint::TensorRef> refs = parameter_refs(runtime.language_model());
  for (const optim::Moments& moments : runtime.optimizer().moments()) {
    const auto add = [&](std::string_view suffix, TensorView view) {
      const std::string name = concat(moments.name, suffix);
      refs.push_back({.name = name,
                      .file_group = checkpoint::file_group_of(name),
                      .view = view,
                      .slice_elements = moments.slice_elements});
    };
    add(checkpoint::kFirstMomentSuffix, moments.first);
    add(checkpoint::kSecondMomentSuffix, moments.second);
  }
  return refs;
}

void load_for_evaluation(const std::filesystem::path& dir, std::optional<std::uint64_t> tokenizer,
                         const model::LanguageModel& model, Device& device) {
  const checkpoint::LoadOptions options = {
      .left_out_suffixes = {std::string(checkpoint::kFirstMomentSuffix),
                            std::string(checkpoint::kSecondMomentSuffix)}};
  const auto report = checkpoint::load(dir, parameter_refs(model), device, options);
  check_tokenizer(report.manifest, tokenizer, dir);
  for_each_router(model, [&](int layer, const nn::Router::Buffers& buffers) {
    if (buffers.bias.is_empty()) return;
    const auto& bias =
        named_vector(report.manifest.doubles, router_key(layer, "bias"), buffers.bias.numel());
    copy_bias(buffers.bias, bias, device);
  });
}

Checkpointing::Checkpointing(const Config& config, Runtime& runtime)
    : config_(config),
      runtime_(runtime),
      tokenizer_(tokenizer_fingerprint(config.data)),
      writer_(kStagingBytes) {}

checkpoint::Manifest Checkpointing::facts(const RunPosition& position) {
  Device& device = runtime_.device();
  checkpoint::Manifest manifest;
  manifest.step = position.step;
  manifest.tokens = position.tokens;
  manifest.data_position = position.data_position;
  manifest.configuration = checkpoint_settings(config_);
  if (tokenizer_) {
    manifest.integers[std::string(kTokenizerKey)] = {std::bit_cast<std::int64_t>(*tokenizer_)};
  }
  const optim::OptimizerState state = runtime_.optimizer().export_state(device);
  manifest.doubles["optimizer.gate"] = state.gate;
  manifest.doubles["optimizer.windows"] = state.windows;
  for_each_router(runtime_.language_model(), [&](int layer, const nn::Router::Buffers& buffers) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(buffers.previous_counts.numel()));
    device.copy_to_host(std::span(counts), buffers.previous_counts);
    manifest.integers[router_key(layer, "previous_counts")] = std::move(counts);
    if (buffers.bias.is_empty()) return;
    manifest.doubles[router_key(layer, "bias")] = read_bias(buffers.bias, device);
  });
  return manifest;
}

std::filesystem::path Checkpointing::save(const RunPosition& position) {
  const checkpoint::Info info = {{"run", name_of_run(config_.run)},
                                 {"layout", "one process"},
                                 {"device", runtime_.device().description()},
                                 {"time", now_text()}};
  const auto report = writer_.save(checkpoints_dir(), facts(position), training_refs(runtime_),
                                   info, runtime_.device());
  checkpoint::prune(checkpoints_dir(), config_.checkpoint.keep);
  return report.path;
}

void Checkpointing::restore_state(const checkpoint::Manifest& manifest) {
  Device& device = runtime_.device();
  optim::OptimizerState state;
  state.gate = named_vector(manifest.doubles, "optimizer.gate", ops::kNumGateFields);
  state.windows = named_vector(manifest.doubles, "optimizer.windows", 2 * ops::kSkipWindow + 1);
  runtime_.optimizer().import_state(state, device);
  for_each_router(runtime_.language_model(), [&](int layer, const nn::Router::Buffers& buffers) {
    const auto& counts = named_vector(manifest.integers, router_key(layer, "previous_counts"),
                                      buffers.previous_counts.numel());
    device.copy_to_device(buffers.previous_counts, std::span<const std::int64_t>(counts));
    if (buffers.bias.is_empty()) return;
    const auto& bias =
        named_vector(manifest.doubles, router_key(layer, "bias"), buffers.bias.numel());
    copy_bias(buffers.bias, bias, device);
  });
}

RunPosition Checkpointing::resume(const std::filesystem::path& dir) {
  const checkpoint::Manifest manifest = checkpoint::read_manifest(dir / "manifest.json");
  check_resume(manifest.configuration, config_);
  check_tokenizer(manifest, tokenizer_, dir);
  const auto report = checkpoint::load(dir, training_refs(runtime_), runtime_.device());
  restore_state(report.manifest);
  return {.step = report.manifest.step,
          .tokens = report.manifest.tokens,
          .data_position = report.manifest.data_position};
}

void Checkpointing::load_weights(const std::filesystem::path& dir, bool load_optimizer) {
  if (!load_optimizer) {
    load_for_evaluation(dir, std::nullopt, runtime_.language_model(), runtime_.device());
    return;
  }
  const auto report = checkpoint::load(dir, training_refs(runtime_), runtime_.device());
  restore_state(report.manifest);
}

}  // namespace ulmus::train
