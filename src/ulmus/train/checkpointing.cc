#include "ulmus/train/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ctime>
#include <utility>

#include "ulmus/base/strict_json.h"
#include "ulmus/checkpoint/info.h"
#include "ulmus/comm/agreement.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/run_folder.h"
#include "ulmus/train/token_data.h"

namespace ulmus::train {

namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{512} << 10U;

std::string bias_key(int layer) {
  return fmt::format("layers.{}{}", layer, checkpoint::kRouterBiasSuffix);
}

std::string counts_key(int layer) {
  return fmt::format("layers.{}.moe.router.previous_counts", layer);
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

/// InputError when both the checkpoint and the run know a hash, and they differ.
void check_data(const checkpoint::Manifest& manifest, std::string_view name,
                std::optional<std::uint64_t> hash, std::string_view key,
                const std::filesystem::path& dir) {
  const std::optional<std::uint64_t> kept = checkpoint::kept_hash(manifest, name);
  if (!hash || !kept || *kept == *hash) return;
  fail_input(dir.string(), " was trained with another ", key, " (xxh3_64 ", hash_text(*kept),
             ") than the one given (", hash_text(*hash), ")");
}

/// A checkpoint without biases stands for biases of 0.
void restore_bias(TensorView bias, const checkpoint::Manifest& manifest, int layer,
                  const std::filesystem::path& dir, Device& device) {
  const std::string name = bias_key(layer);
  const bool is_kept = manifest.doubles.contains(name);
  if (bias.is_empty()) {
    if (!is_kept) return;
    fail_input(dir.string(), " has balancing biases (", name,
               "), which moe.bias_update = 0 would leave out: give moe.bias_update as in training");
  }
  const auto n = static_cast<std::size_t>(bias.numel());
  copy_bias(
      bias,
      is_kept ? named_vector(manifest.doubles, name, bias.numel()) : std::vector<double>(n, 0.0),
      device);
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

std::vector<checkpoint::TensorRef> whole_refs(const model::LanguageModel& model) {
  std::vector<checkpoint::TensorRef> refs;
  for (const nn::Parameter& parameter : model.parameters().all()) {
    refs.push_back(checkpoint::TensorRef::whole(parameter.name,
                                                checkpoint::file_group_of(parameter.name),
                                                parameter.value, parameter.slice_elements));
  }
  return refs;
}

std::vector<checkpoint::TensorRef> weight_refs(Runtime& runtime) {
  std::vector<checkpoint::TensorRef> refs;
  const auto& parameters = runtime.language_model().parameters().all();
  for (const parallel::OwnedShare& share : runtime.parameter_store().shares()) {
    const nn::Parameter& parameter = parameters[static_cast<std::size_t>(share.parameter)];
    refs.push_back({.name = parameter.name,
                    .file_group = checkpoint::file_group_of(parameter.name),
                    .shape = parameter.shape,
                    .blocks = share.blocks,
                    .view = share.value});
  }
  return refs;
}

std::vector<checkpoint::TensorRef> training_refs(Runtime& runtime) {
  std::vector<checkpoint::TensorRef> refs = weight_refs(runtime);
  const std::size_t weights = refs.size();
  const std::vector<optim::Moments>& moments = runtime.optimizer().moments();
  for (std::size_t i = 0; i < weights; ++i) {
    const auto add = [&](std::string_view suffix, TensorView view) {
      const std::string name = concat(moments[i].name, suffix);
      refs.push_back({.name = name,
                      .file_group = checkpoint::file_group_of(name),
                      .shape = refs[i].shape,
                      .blocks = moments[i].blocks,
                      .view = view});
    };
    add(checkpoint::kFirstMomentSuffix, moments[i].first);
    add(checkpoint::kSecondMomentSuffix, moments[i].second);
  }
  return refs;
}

std::int64_t staging_bytes(const Config& config, Runtime& runtime) {
  if (!config.checkpoint.async) return kPieceBytes;
  return checkpoint::CheckpointWriter::snapshot_bytes(training_refs(runtime));
}

std::string load_for_evaluation(const std::filesystem::path& dir, const Config& config,
                                std::optional<std::uint64_t> tokenizer,
                                std::span<const checkpoint::TensorRef> weights,
                                const model::LanguageModel& model, Device& device,
                                comm::Communicator& ranks) {
  const checkpoint::LoadOptions options = {
      .left_out_suffixes = {std::string(checkpoint::kFirstMomentSuffix),
                            std::string(checkpoint::kSecondMomentSuffix)}};
  const auto report = checkpoint::load(dir, weights, device, ranks, options);
  comm::agree(ranks, [&] {
    check_data(report.manifest, checkpoint::kTokenizerHashKey, tokenizer, "data.tokenizer", dir);
    for_each_router(model, [&](int layer, const nn::Router::Buffers& buffers) {
      restore_bias(buffers.bias, report.manifest, layer, dir, device);
    });
  });
  return model_differences(report.manifest.configuration, config);
}

Checkpointing::Checkpointing(const Config& config, Runtime& runtime, const DataIdentity& data,
                             checkpoint::SaveHooks hooks)
    : config_(config),
      runtime_(runtime),
      data_(data),
      writer_(staging_bytes(config, runtime), std::move(hooks), config.checkpoint.keep) {}

void Checkpointing::expect_room() {
  writer_.expect_room(checkpoints_dir(), facts({}), training_refs(runtime_), info(), ranks());
}

checkpoint::Manifest Checkpointing::facts(const RunPosition& position) {
  Device& device = runtime_.device();
  checkpoint::Manifest manifest;
  manifest.step = position.step;
  manifest.tokens = position.tokens;
  manifest.data_position = position.data_position;
  manifest.configuration = checkpoint_settings(config_);
  const auto keep = [&](std::string_view key, std::optional<std::uint64_t> hash) {
    if (hash) manifest.integers[std::string(key)] = {std::bit_cast<std::int64_t>(*hash)};
  };
  keep(checkpoint::kTokenizerHashKey, data_.tokenizer);
  keep(checkpoint::kTrainHashKey, data_.train);
  const optim::OptimizerState state = runtime_.optimizer().export_state(device);
  manifest.doubles["optimizer.gate"] = state.gate;
  manifest.doubles["optimizer.windows"] = state.windows;
  for_each_router(runtime_.language_model(), [&](int layer, const nn::Router::Buffers& buffers) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(buffers.previous_counts.numel()));
    device.copy_to_host(std::span(counts), buffers.previous_counts);
    manifest.integers[counts_key(layer)] = std::move(counts);
    if (buffers.bias.is_empty()) return;
    manifest.doubles[bias_key(layer)] = read_bias(buffers.bias, device);
  });
  return manifest;
}

checkpoint::Info Checkpointing::info() const {
  checkpoint::Info info = checkpoint::info_of_process();
  info["run"] = name_of_run(config_.run);
  info["layout"] = runtime_.ranks().layout().text();
  info["device"] = runtime_.device().description();
  info["time"] = now_text();
  return info;
}

std::filesystem::path Checkpointing::save(const RunPosition& position) {
  return done(writer_.save(checkpoints_dir(), facts(position), training_refs(runtime_), info(),
                           runtime_.device(), ranks()));
}

void Checkpointing::start(const RunPosition& position) {
  writer_.start(checkpoints_dir(), facts(position), training_refs(runtime_), info(),
                runtime_.device(), ranks());
}

std::optional<std::filesystem::path> Checkpointing::advance() {
  const auto report = writer_.advance(ranks());
  if (!report) return std::nullopt;
  return done(*report);
}

std::filesystem::path Checkpointing::finish() { return done(writer_.finish(ranks())); }

std::filesystem::path Checkpointing::done(const checkpoint::SaveReport& report) {
  not_removed_.insert(not_removed_.end(), report.not_removed.begin(), report.not_removed.end());
  return report.path;
}

void Checkpointing::restore_state(const checkpoint::Manifest& manifest,
                                  const std::filesystem::path& dir) {
  comm::agree(ranks(), [&] { restore_small_state(manifest, dir); });
  runtime_.parameter_store().publish_weights();
}

void Checkpointing::restore_small_state(const checkpoint::Manifest& manifest,
                                        const std::filesystem::path& dir) {
  Device& device = runtime_.device();
  optim::OptimizerState state;
  state.gate = named_vector(manifest.doubles, "optimizer.gate", ops::kNumGateFields);
  state.windows = named_vector(manifest.doubles, "optimizer.windows", 2 * ops::kSkipWindow + 1);
  runtime_.optimizer().import_state(state, device);
  for_each_router(runtime_.language_model(), [&](int layer, const nn::Router::Buffers& buffers) {
    const auto& counts =
        named_vector(manifest.integers, counts_key(layer), buffers.previous_counts.numel());
    device.copy_to_device(buffers.previous_counts, std::span<const std::int64_t>(counts));
    restore_bias(buffers.bias, manifest, layer, dir, device);
  });
}

RunPosition Checkpointing::resume(const std::filesystem::path& dir) {
  const auto check = [&](const checkpoint::Manifest& manifest) {
    check_resume(manifest.configuration, config_);
    check_data(manifest, checkpoint::kTokenizerHashKey, data_.tokenizer, "data.tokenizer", dir);
    check_data(manifest, checkpoint::kTrainHashKey, data_.train, "data.train", dir);
  };
  const auto report = checkpoint::load(dir, training_refs(runtime_), runtime_.device(), ranks(),
                                       {.check_manifest = check});
  restore_state(report.manifest, dir);
  return {.step = report.manifest.step,
          .tokens = report.manifest.tokens,
          .data_position = report.manifest.data_position};
}

std::string Checkpointing::load_weights(const std::filesystem::path& dir, bool load_optimizer) {
  if (!load_optimizer) {
    std::string differences =
        load_for_evaluation(dir, config_, std::nullopt, weight_refs(runtime_),
                            runtime_.language_model(), runtime_.device(), ranks());
    runtime_.parameter_store().publish_weights();
    return differences;
  }
  const auto report = checkpoint::load(dir, training_refs(runtime_), runtime_.device(), ranks());
  restore_state(report.manifest, dir);
  return model_differences(report.manifest.configuration, config_);
}

}  // namespace ulmus::train
