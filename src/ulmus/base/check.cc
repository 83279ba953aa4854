#include "ulmus/base/check.h"

#include <string_view>

namespace ulmus {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  const std::string_view path(file);
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  throw Error(concat(name, ":", line, ": ", condition, " failed: ", message));
}

}  // namespace ulmus
