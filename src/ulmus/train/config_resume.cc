#include "ulmus/base/error.h"
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

std::string shown(const std::string& value) { return value.empty() ? "not set" : value; }

}  // namespace

std::vector<ResumeDifference> resume_differences(const Config& old_config,
                                                 const Config& new_config) {
  std::vector<ResumeDifference> differences;
  for (const ConfigKey& key : config_keys()) {
    if (!key.write) continue;
    const std::string old_value = key.write(old_config);
    const std::string new_value = key.write(new_config);
    if (old_value == new_value) continue;
    differences.push_back(
        {key.name, shown(old_value), shown(new_value), may_change(key, old_config)});
  }
  return differences;
}

void check_resume(const Config& old_config, const Config& new_config) {
  std::string message;
  for (const ResumeDifference& difference : resume_differences(old_config, new_config)) {
    if (difference.allowed) continue;
    message += concat(message.empty() ? "" : "; ", difference.key, " was ", difference.old_value,
                      ", is now ", difference.new_value);
  }
  if (message.empty()) return;
  fail_input("the run in ", new_config.run.dir.string(),
             " was started with another configuration: ", message,
             "; give the old values, or another run.dir (with checkpoint.load to start from this "
             "run's weights)");
}

}  // namespace ulmus::train
