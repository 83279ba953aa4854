#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/cli/commands.h"
#include "ulmus/cli/on_ranks.h"
#include "ulmus/cli/output.h"
#include "ulmus/comm/launch.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/train/parity.h"

namespace ulmus::cli {
namespace {

constexpr int kDefaultRanks = 4;

struct ParityArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> layouts;
  int ranks = 0;  ///< 0: those that were started, else kDefaultRanks
  std::string json;
};

std::string difference_text(const train::ParityRow& row) {
  if (!row.first_difference) return "";
  return fmt::format("{} in {}: {} differs by {:.3g}, allowed {:.3g}\n", row.layout, row.precision,
                     row.first_difference->tensor, row.first_difference->error,
                     row.first_difference->tolerance);
}

std::string report_text(const train::ParityReport& report) {
  TextTable table({"layout", "precision", "", "error/tolerance", "largest for"});
  std::string differences;
  for (const train::ParityRow& row : report.rows) {
    table.add_row({row.layout, row.precision, row.first_difference ? "DIFFERS" : "equal",
                   fmt::format("{:.2g}", row.worst), row.worst_tensor});
    differences += difference_text(row);
  }
  std::string text = fmt::format("{} ranks: {} combinations legal, {} refused; {} layouts run\n",
                                 report.ranks, report.legal, report.refused, report.run);
  if (!report.rows.empty()) {
    text += fmt::format("smallest margin between a chosen expert and the best one left: {:.3g}\n",
                        report.rows.back().smallest_margin);
  }
  return text + "\n" + table.text() + differences;
}

nlohmann::json report_json(const train::ParityReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const train::ParityRow& row : report.rows) {
    nlohmann::json facts = {{"layout", row.layout},
                            {"precision", row.precision},
                            {"equal", !row.first_difference},
                            {"error_over_tolerance", row.worst},
                            {"worst_tensor", row.worst_tensor},
                            {"smallest_margin", row.smallest_margin}};
    if (row.first_difference) {
      facts["first_difference"] = {{"tensor", row.first_difference->tensor},
                                   {"error", row.first_difference->error},
                                   {"tolerance", row.first_difference->tolerance}};
    }
    rows.push_back(facts);
  }
  return {{"ranks", report.ranks},
          {"legal", report.legal},
          {"refused", report.refused},
          {"run", report.run},
          {"rows", rows}};
}

/// The ranks that were started, or threads of this process.
int run_layouts(const train::Config& config, const ParityArguments& arguments, comm::World& world) {
  const bool is_launched = comm::is_launched();
  train::ParityOptions options;
  options.layouts = arguments.layouts;
  options.ranks = arguments.ranks > 0 ? arguments.ranks
                  : is_launched       ? world.size()
                                      : kDefaultRanks;
  if (is_launched && options.ranks != world.size()) {
    fail_input("--ranks ", options.ranks, ", but ", world.size(), " ranks were started");
  }
  if (prints(world)) {
    options.progress = [](const train::ParityRow& row) {
      print_note(fmt::format("{} {}: {}", row.precision, row.layout,
                             row.first_difference ? "DIFFERS" : "equal"));
    };
  }
  const train::OnRanks on_ranks = [&](const std::function<void(comm::World&)>& body) {
    if (is_launched) {
      body(world);
    } else {
      comm::run_thread_ranks(options.ranks, timeout_of(config), body);
    }
  };
  const train::ParityReport report = train::run_parity(config, options, on_ranks);
  if (prints(world)) {
    print_facts(report_text(report), report_json(report).dump(2), arguments.json);
  }
  return static_cast<int>(report.is_equal() ? ExitCode::kDone : ExitCode::kDifference);
}

int run_parity_command(const ParityArguments& arguments) {
  check_json_target(arguments.json);
  return run_on_ranks(arguments.config, arguments.overrides,
                      [&](const train::Config& config, comm::World& world) {
                        return run_layouts(config, arguments, world);
                      });
}

}  // namespace

void add_parity_command(CLI::App& program, Invocation& invocation) {
  const auto arguments = std::make_shared<ParityArguments>();
  CLI::App* command = program.add_subcommand(
      "parity", "Proves that layouts of several ranks compute what one rank computes");
  command->add_option("CONFIG", arguments->config, "Configuration, a TOML file")->required();
  command
      ->add_option("--ranks", arguments->ranks,
                   "Ranks, as threads of this process (4); under mpirun those that were started")
      ->check(CLI::Range(1, 64));
  command
      ->add_option("--layouts", arguments->layouts,
                   "all (the default), or names as the table shows them, separated by commas")
      ->delimiter(',');
  command
      ->add_option("--set", arguments->overrides, "Sets a key: --set moe.top_k=2; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--json", arguments->json, "Writes the facts as JSON; - is standard output");
  command->callback([arguments, &invocation] {
    if (arguments->layouts == std::vector<std::string>{"all"}) arguments->layouts.clear();
    invocation.takes_ranks = true;
    invocation.run = [arguments] { return run_parity_command(*arguments); };
  });
}

}  // namespace ulmus::cli
