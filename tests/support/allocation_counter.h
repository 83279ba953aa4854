#pragma once

#include <cstdint>

namespace ulmus::test {

/// Heap allocations of this program so far, by all threads: every form of operator new. For
/// programs linked with allocation_counter.cc, which replaces the global allocation functions.
std::int64_t num_allocations();

}  // namespace ulmus::test
