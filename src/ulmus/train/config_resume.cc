#include <algorithm>
#include <array>

#include "ulmus/base/error.h"
#include "ulmus/checkpoint/manifest.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

bool may_change(const ConfigKey& key, const Config& config) {
  if (key.on_resume == OnResume::kScoped) {
    return config.model.moe.balance_scope != nn::BalanceScope::kMicroBatch ||
           config.model.dense_layers == config.model.layers;
  }
  return key.on_resume == OnResume::kMay;
}

template <class Predicate>
std::string differences_text(const std::vector<ResumeDifference>& differences,
                             const Predicate& counts) {
  std::string text;
  for (const ResumeDifference& found : differences) {
    if (!counts(found)) continue;
    text += concat(text.empty() ? "" : "; ", checkpoint::shown_text(found.key), " was ",
                   checkpoint::shown_text(found.old_value), ", is now ", found.new_value);
  }
  return text;
}

/// Model and optimizer: a checkpoint tells them even where a continued run may change them.
bool describes_training(const ConfigKey& key) {
  constexpr std::array<std::string_view, 4> kTables = {"model.", "moe.", "optim.", "precision."};
  return std::ranges::any_of(kTables,
                             [&](std::string_view table) { return key.name.starts_with(table); });
}

}  // namespace

Settings checkpoint_settings(const Config& config) {
  Settings settings;
  for (const ConfigKey& key : config_keys()) {
    if (!key.write || (may_change(key, config) && !describes_training(key))) continue;
    std::string value = key.write(config);
    if (!value.empty()) settings[key.name] = std::move(value);
  }
  return settings;
}

std::vector<ResumeDifference> resume_differences(const Settings& kept, const Config& config) {
  constexpr std::string_view kNotSet = "not set";
  Settings old = kept;
  std::vector<ResumeDifference> differences;
  const auto compare = [&](const std::string& name, const std::string& value, bool allowed) {
    const auto found = old.find(name);
    const std::string old_value = found == old.end() ? std::string(kNotSet) : found->second;
    if (found != old.end()) old.erase(found);
    if (old_value != value) differences.push_back({name, old_value, value, allowed});
  };
  const Settings now = checkpoint_settings(config);
  for (const ConfigKey& key : config_keys()) {
    const auto found = now.find(key.name);
    if (found == now.end() && !old.contains(key.name)) continue;
    compare(key.name, found == now.end() ? std::string(kNotSet) : found->second,
            may_change(key, config));
  }
  // Keys that this version does not know.
  for (const auto& [name, value] : old) {
    differences.push_back({name, value, std::string(kNotSet), false});
  }
  return differences;
}

std::string model_differences(const Settings& kept, const Config& config) {
  constexpr std::array<std::string_view, 6> kOfTraining = {"model.family",     "model.init_std",
                                                           "moe.balance_loss", "moe.balance_scope",
                                                           "moe.z_loss",       "moe.bias_update"};
  return differences_text(resume_differences(kept, config), [&](const ResumeDifference& found) {
    return (found.key.starts_with("model.") || found.key.starts_with("moe.")) &&
           std::ranges::find(kOfTraining, found.key) == kOfTraining.end();
  });
}

void check_resume(const Settings& kept, const Config& config) {
  const std::string message =
      differences_text(resume_differences(kept, config),
                       [](const ResumeDifference& found) { return !found.allowed; });
  if (message.empty()) return;
  fail_input("the run in ", config.run.dir.string(),
             " was started with another configuration: ", message,
             "; give the old values, or another run.dir (with checkpoint.load to start from this "
             "run's weights)");
}

}  // namespace ulmus::train
