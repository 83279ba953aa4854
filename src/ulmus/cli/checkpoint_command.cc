#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ulmus/base/error.h"
#include "ulmus/checkpoint/show.h"
#include "ulmus/checkpoint/verify.h"
#include "ulmus/cli/checkpoint_path.h"
#include "ulmus/cli/commands.h"
#include "ulmus/cli/output.h"

namespace ulmus::cli {
namespace {

struct CheckpointOptions {
  std::string dir;
  std::string json;
  bool shows_tensors = false;
};

std::string shape_text(const Shape& shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

/// Both are texts of files that nobody vouches for.
std::string setting_line(const std::string& key, const std::string& value) {
  return fmt::format("  {} = {}\n", checkpoint::shown_text(key), checkpoint::shown_text(value));
}

std::string show_text(const checkpoint::ShowReport& report, bool shows_tensors) {
  const checkpoint::Manifest& manifest = report.manifest;
  std::string text = fmt::format(
      "step {}, {} tokens, data position {}\n{} elements in {} tensors, {}\n\n", manifest.step,
      grouped_digits(manifest.tokens), manifest.data_position, grouped_digits(report.elements),
      manifest.tensors.size(), bytes_text(report.tensor_bytes));
  TextTable files({"file", "tensors", "bytes"});
  for (const auto& file : report.files) {
    files.add_row({file.name, grouped_digits(file.tensors), grouped_digits(file.bytes)});
  }
  text += files.text();
  if (shows_tensors) {
    TextTable tensors({"tensor", "type", "shape", "hash"});
    for (const auto& tensor : manifest.tensors) {
      tensors.add_row({checkpoint::shown_text(tensor.name), std::string(name_of(tensor.dtype)),
                       shape_text(tensor.shape), fmt::format("{:016x}", tensor.hash)});
    }
    text += "\n" + tensors.text();
  }
  text += "\nconfiguration\n";
  for (const auto& [key, value] : manifest.configuration) {
    text += setting_line(key, value);
  }
  text += report.info.empty() ? "\ninfo.json is missing or damaged\n" : "\nsaved by\n";
  for (const auto& [key, value] : report.info) {
    text += setting_line(key, value);
  }
  return text;
}

nlohmann::json show_json(const checkpoint::ShowReport& report) {
  const checkpoint::Manifest& manifest = report.manifest;
  nlohmann::json files = nlohmann::json::array();
  for (const auto& file : report.files) {
    files.push_back({{"name", file.name}, {"tensors", file.tensors}, {"bytes", file.bytes}});
  }
  nlohmann::json tensors = nlohmann::json::array();
  for (const auto& tensor : manifest.tensors) {
    const auto dims = tensor.shape.dims();
    tensors.push_back({{"name", tensor.name},
                       {"file", tensor.file},
                       {"dtype", name_of(tensor.dtype)},
                       {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                       {"bytes", tensor.bytes},
                       {"hash", fmt::format("{:016x}", tensor.hash)}});
  }
  return {{"step", manifest.step},
          {"tokens", manifest.tokens},
          {"data_position", manifest.data_position},
          {"elements", report.elements},
          {"tensor_bytes", report.tensor_bytes},
          {"files", files},
          {"tensors", tensors},
          {"configuration", manifest.configuration},
          {"info", report.info}};
}

int run_show(const CheckpointOptions& options) {
  check_json_target(options.json);
  const checkpoint::ShowReport report = checkpoint::show(find_checkpoint(options.dir));
  print_facts(show_text(report, options.shows_tensors), show_json(report).dump(2), options.json);
  return 0;
}

int run_verify(const CheckpointOptions& options) {
  check_json_target(options.json);
  const std::filesystem::path dir = find_checkpoint(options.dir);
  const checkpoint::VerifyReport report = checkpoint::verify(dir);
  std::string text =
      fmt::format("{}: {} files, {} tensors, {} looked at\n", dir.string(), report.files_checked,
                  report.tensors_checked, bytes_text(report.bytes));
  text += report.is_good() ? "good\n" : "";
  const nlohmann::json facts = {
      {"checkpoint", dir.string()},    {"good", report.is_good()},
      {"files", report.files_checked}, {"tensors", report.tensors_checked},
      {"bytes", report.bytes},         {"differences", report.differences}};
  print_facts(text, facts.dump(2), options.json);
  if (report.is_good()) return 0;
  finish_output();
  std::string message = concat(dir.string(), " is damaged:");
  for (const std::string& difference : report.differences) {
    message += "\n  " + difference;
  }
  throw DifferenceError(message);
}

CLI::App* add_action(CLI::App& command, const char* name, const char* help,
                     const std::shared_ptr<CheckpointOptions>& options) {
  CLI::App* action = command.add_subcommand(name, help);
  action
      ->add_option("DIR", options->dir,
                   "A checkpoint's folder, or a run folder, whose newest is taken")
      ->required();
  action->add_option("--json", options->json, "Writes the facts as JSON; - is standard output");
  return action;
}

}  // namespace

void add_checkpoint_command(CLI::App& program, Invocation& invocation) {
  const auto options = std::make_shared<CheckpointOptions>();
  CLI::App* command =
      program.add_subcommand("checkpoint", "Looks at checkpoints and averages them");
  command->require_subcommand(1);
  CLI::App* show = add_action(*command, "show", "Step, configuration, files, sizes", options);
  show->add_flag("--tensors", options->shows_tensors, "Every tensor, too");
  show->callback(
      [options, &invocation] { invocation.run = [options] { return run_show(*options); }; });
  add_action(*command, "verify", "Every byte against hashes; exit status 3 when one differs",
             options)
      ->callback(
          [options, &invocation] { invocation.run = [options] { return run_verify(*options); }; });
  add_checkpoint_average(*command, invocation);
  add_refused_subcommand(*command, "checkpoint import-hf", "import-hf", invocation);
  add_refused_subcommand(*command, "checkpoint export-hf", "export-hf", invocation);
}

}  // namespace ulmus::cli
