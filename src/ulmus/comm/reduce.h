#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ulmus/comm/communicator.h"
#include "ulmus/device/device.h"

namespace ulmus::comm {

/// out[i] = sources[0][i] op sources[1][i] op ... , from left to right, for i in [0, n).
///
///   sources  one for each rank, in rank order, at least one
///   out      overwritten; may be the same memory as one of the sources
///   dtype    f32, f64 or i64, each in itself; integer sums mod 2^64. Of minima and maxima that are
///            equal (-0 and 0) the first is kept; a NaN gives NaN.
void reduce(std::byte* out, std::span<const std::byte* const> sources, DType dtype, ReduceOp op,
            std::int64_t n);

/// The same on the threads of a CPU device, where it pays. Same bits.
void reduce_on(Device& device, std::byte* out, std::span<const std::byte* const> sources,
               DType dtype, ReduceOp op, std::int64_t n);

/// Copies bytes on the threads of a CPU device, where it pays. The two do not overlap.
void copy_on(Device& device, std::byte* to, const std::byte* from, std::int64_t num_bytes);

}  // namespace ulmus::comm
