#pragma once

#include <optional>
#include <string>

namespace ulmus {

/// The value of an environment variable, if it is set. The only way to the environment; every
/// variable that is asked for stands in docs/environment.md.
std::optional<std::string> environment_variable(const char* name);

}  // namespace ulmus
