#pragma once

#include <cstdint>

namespace ulmus::ops::cpu {

/// What is written past the caches is not read from memory first: a copy moves two thirds of the
/// bytes. That pays in calls that read and write this much or more, the next operation's reading
/// from memory included (benchmarks/ops/route_rows_bench.cc); smaller outputs are better left in
/// the caches.
inline constexpr std::int64_t kStreamedBytes = std::int64_t{16} << 20U;

/// Copies `bytes` past the caches; the two places are apart. Whole cache lines only: the ends of a
/// piece that begins or ends inside a line go the ordinary way. On processors for which there is no
/// such file (CMakeLists.txt) it is an ordinary copy.
void stream_copy(void* to, const void* from, std::int64_t bytes);

/// After a thread's last stream_copy: others may read what it wrote.
void end_streams();

}  // namespace ulmus::ops::cpu
