#pragma once

#include <string>
#include <string_view>

#include "ulmus/device/arena.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// The memory table as lines of text, for people.
std::string memory_text(const MemoryTable& memory);

/// InputError, with the table and `cure`, when it is more than memory.budget_gib allows, or where
/// that is 0, more than a rank's share of what the machine has free.
void check_budget(const Config& config, const MemoryTable& memory, int ranks_on_node,
                  std::string_view cure);

}  // namespace ulmus::train
