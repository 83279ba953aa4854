#pragma once

#include "ulmus/base/error.h"

/// ULMUS_CHECK(condition, message parts...): guards what a caller can get wrong; stays on in
/// release. ULMUS_DCHECK: guards our own invariants; compiled in with -DULMUS_DCHECKS only. A
/// failed check throws ulmus::Error with file, line, condition and the message.

namespace ulmus {

[[noreturn]] void fail_check(const char* file, int line, const char* condition,
                             const std::string& message);

}  // namespace ulmus

#define ULMUS_CHECK(condition, ...)                                                      \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      ::ulmus::fail_check(__FILE__, __LINE__, #condition, ::ulmus::concat(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)

#ifdef ULMUS_DCHECKS
#define ULMUS_DCHECK(condition, ...) ULMUS_CHECK(condition, __VA_ARGS__)
#else
// Compiled, so that it cannot rot and its names count as used; never run.
#define ULMUS_DCHECK(condition, ...)       \
  do {                                     \
    if constexpr (false) {                 \
      ULMUS_CHECK(condition, __VA_ARGS__); \
    }                                      \
  } while (false)
#endif
