#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/train/small_run.h"

namespace ulmus::test {
namespace {

/// Largest resident size that a process has had.
double peak_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return 1024.0 * std::stod(line.substr(6));
  }
  return 0.0;
}

/// The memory table of a model with 1 GiB of weights is what the process then takes.
TEST(Memory, TheDryRunTableIsTheGrowthOfTheProcess) {
  const SmallRun small;
  TestFolder folder;
  std::vector<std::string> arguments = {"train",
                                        folder.write("big.toml", small.config_text("big"))};
  for (const char* setting : {"model.d_model=1024", "moe.experts=64", "moe.expert_hidden=680",
                              "run.max_steps=1000", "data.eval=[]"}) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  std::vector<std::string> dry = arguments;
  dry.insert(dry.end(), {"--dry-run", "--json", "-"});
  const Finished planned = run_program(dry);
  ASSERT_EQ(planned.status, 0) << planned.err;
  const auto facts = nlohmann::json::parse(planned.out);
  const auto table = facts.at("memory").at("total_bytes").get<double>();
  ASSERT_GT(facts.at("memory").at("parameters_bytes").get<double>(), 1073741824.0);
  Program program(arguments);
  ASSERT_TRUE(program.wait_for("step 1/"));
  const double peak = peak_bytes(program.pid());
  program.send(SIGKILL);
  EXPECT_EQ(program.finish().status, 128 + SIGKILL);
  EXPECT_NEAR(peak, table, 0.05 * table);
}

}  // namespace
}  // namespace ulmus::test
