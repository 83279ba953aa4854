#include "ulmus/train/memory.h"

#include <fmt/format.h>

#include "ulmus/base/error.h"
#include "ulmus/device/device.h"

namespace ulmus::train {

std::string memory_text(const MemoryTable& memory) {
  constexpr double kMebibyte = 1048576.0;
  std::string text;
  for (const auto& [name, bytes] : memory.lines()) {
    text += fmt::format("  {:<12} {:>10.1f} MiB\n", name, static_cast<double>(bytes) / kMebibyte);
  }
  return text + fmt::format("  {:<12} {:>10.1f} MiB", "total",
                            static_cast<double>(memory.total_bytes()) / kMebibyte);
}

void check_budget(const Config& config, const MemoryTable& memory, int ranks_on_node,
                  std::string_view cure) {
  constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
  const bool is_given = config.memory.budget_gib > 0.0;
  const double budget = is_given ? config.memory.budget_gib * kGibibyte
                                 : static_cast<double>(available_memory_bytes()) / ranks_on_node;
  const auto needed = static_cast<double>(memory.total_bytes());
  if (needed <= budget) return;
  fail_input("this needs ", fmt::format("{:.2f}", needed / kGibibyte), " GiB, ",
             is_given            ? "memory.budget_gib allows "
             : ranks_on_node > 1 ? "a rank's share of the machine's free memory is "
                                 : "the machine has free ",
             fmt::format("{:.2f}", budget / kGibibyte), " GiB; ", cure, "\n", memory_text(memory));
}

}  // namespace ulmus::train
