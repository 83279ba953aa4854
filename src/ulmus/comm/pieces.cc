#include "ulmus/comm/pieces.h"

#include <algorithm>

#include "ulmus/base/check.h"

namespace ulmus::comm {

namespace {

/// What the staging of a ReduceScatter takes at most, while chunks are not smaller than kMinChunk.
constexpr std::int64_t kStagingBytes = std::int64_t{8} << 20U;
constexpr std::int64_t kMinChunk = std::int64_t{64} << 10U;
constexpr std::int64_t kMaxChunk = std::int64_t{1} << 20U;
constexpr std::int64_t kSlotAlignment = 64;

}  // namespace

void check_pieces(const PieceBounds& begin, const TensorView& buffer, const Communicator& group) {
  ULMUS_CHECK(buffer.rank() == 1, "the buffer of group ", group.name(), " is one-dimensional, not ",
              buffer.shape());
  ULMUS_CHECK(static_cast<int>(begin.size()) == group.size() + 1, begin.size(), " bounds for ",
              group.size(), " ranks of group ", group.name());
  ULMUS_CHECK(std::is_sorted(begin.begin(), begin.end()) && begin.front() == 0 &&
                  begin.back() == buffer.numel(),
              "pieces of [0, ", buffer.numel(), ") lie in [", begin.front(), ", ", begin.back(),
              ") and ascend");
}

ScatterStaging::ScatterStaging(const PieceBounds& begin, DType dtype) {
  ULMUS_CHECK(begin.size() >= 2, begin.size(), " bounds of pieces");
  const auto num_others = static_cast<std::int64_t>(begin.size()) - 2;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i + 1 < begin.size(); ++i) {
    largest = std::max(largest, (begin[i + 1] - begin[i]) * size_of(dtype));
  }
  const std::int64_t share = kStagingBytes / (2 * std::max<std::int64_t>(1, num_others));
  chunk_bytes = std::clamp(share / kMinChunk * kMinChunk, kMinChunk, kMaxChunk);
  slot_bytes =
      (std::min(chunk_bytes, largest) + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  num_slots = largest <= chunk_bytes ? 1 : 2;
  total_bytes = num_slots * num_others * slot_bytes;
}

}  // namespace ulmus::comm
