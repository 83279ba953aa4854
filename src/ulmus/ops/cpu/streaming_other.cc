#include <cstddef>
#include <cstring>

#include "ulmus/ops/cpu/streaming.h"

namespace ulmus::ops::cpu {

void stream_copy(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void end_streams() {}

}  // namespace ulmus::ops::cpu
