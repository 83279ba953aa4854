#include "ulmus/base/env.h"

#include <cstdlib>

namespace ulmus {

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace ulmus
