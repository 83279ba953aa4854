#include "ulmus/base/error.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

std::string code(const std::string& text) { return text.empty() ? text : "`" + text + "`"; }

/// The default that the parser gives; of model keys by family where they differ.
std::string default_text(const ConfigKey& key) {
  if (key.required) return "required";
  if (!key.default_note.empty()) return key.default_note;
  Config config;
  config.optim.phases = {optim::Phase{}};
  config.model = model::family_defaults("olmoe");
  std::string olmoe = key.write(config);
  config.model = model::family_defaults("olmo3_moe");
  const std::string olmo3_moe = key.write(config);
  if (key.name == "model.family" || olmoe == olmo3_moe) return olmoe;
  return olmoe + "; olmo3_moe: " + olmo3_moe;
}

std::string resume_text(OnResume on_resume) {
  switch (on_resume) {
    case OnResume::kMay:
      return "may change";
    case OnResume::kFixed:
      return "fixed";
    case OnResume::kScoped:
      return "may change unless moe.balance_scope is \"micro_batch\"";
  }
  return "";
}

}  // namespace

std::string key_reference() {
  std::string text;
  std::string open_table;
  for (const ConfigKey& key : config_keys()) {
    const std::string table = key.name.substr(0, key.name.find('.'));
    if (table != open_table) {
      text += concat(text.empty() ? "" : "\n", "## [", table,
                     "]\n\n| key | type | default | on resume | built | meaning |\n",
                     "| --- | --- | --- | --- | --- | --- |\n");
      open_table = table;
    }
    text += concat("| ", code(key.name), " | ", key.type, " | ", default_text(key), " | ",
                   resume_text(key.on_resume), " | ", key.built, " | ", key.meaning, " |\n");
  }
  return text;
}

}  // namespace ulmus::train
