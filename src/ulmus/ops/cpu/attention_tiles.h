#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "ulmus/ops/attention.h"
#include "ulmus/ops/cpu/score_exp.h"
#include "ulmus/ops/cpu/simd.h"
#include "ulmus/ops/cpu/strips.h"

namespace ulmus::ops::cpu {

// What both directions of attention share. Scores stand transposed, keys down and 16 queries of one
// head across (a strip): maxima and sums over keys are then lane by lane, keys and values are read
// where they lie, and only queries are turned around, once a tile.

inline constexpr std::int64_t kStripVectors = kStripColumns / kLanes;
inline constexpr std::int64_t kQueryStrips = kAttentionQueryTile / kStripColumns;
static_assert(kAttentionQueryTile % kStripColumns == 0);

/// Sizes and strides of one call.
struct AttentionSizes {
  template <class Args>
  explicit AttentionSizes(const Args& args)
      : num_sequences(args.num_sequences),
        queries(rows_of_one(args.q.dim(0), args.num_sequences)),
        keys(rows_of_one(args.k.dim(0), args.num_sequences)),
        heads(args.q.dim(1)),
        key_heads(args.k.dim(1)),
        width(args.q.dim(2)),
        window(args.window),
        first_key(args.first_key.template data<std::int32_t>()) {}

  std::int64_t q_stride() const { return heads * width; }
  std::int64_t k_stride() const { return key_heads * width; }
  std::int64_t group() const { return heads / key_heads; }
  std::int64_t query_tiles() const {
    return (queries + kAttentionQueryTile - 1) / kAttentionQueryTile;
  }
  /// Offset of the first element of a head in [N, H, P] and in [M, G, P].
  std::int64_t q_at(std::int64_t sequence, std::int64_t query, std::int64_t head) const {
    return (sequence * queries + query) * q_stride() + head * width;
  }
  std::int64_t k_at(std::int64_t sequence, std::int64_t key, std::int64_t key_head) const {
    return (sequence * keys + key) * k_stride() + key_head * width;
  }

  std::int64_t num_sequences;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t width;
  std::int64_t window;
  const std::int32_t* first_key;
};

/// Half-open range of key positions of a sequence.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_empty() const { return begin >= end; }
};

/// The keys that the queries of one strip see. Lanes without a query repeat the last one that is.
class StripMask {
 public:
  StripMask() = default;
  StripMask(const AttentionSizes& sizes, std::int64_t sequence, std::int64_t first_query,
            std::int64_t num_queries) {
    for (std::int64_t lane = 0; lane < kStripColumns; ++lane) {
      const std::int64_t query = first_query + std::min(lane, num_queries - 1);
      const std::int64_t last = sizes.keys - sizes.queries + query;
      std::int64_t first = sizes.first_key[sequence * sizes.queries + query];
      if (sizes.window > 0) first = std::max(first, last - sizes.window + 1);
      first_[static_cast<std::size_t>(lane)] = static_cast<std::int32_t>(first);
      last_[static_cast<std::size_t>(lane)] = static_cast<std::int32_t>(last);
    }
    seen_ = {*std::min_element(first_.begin(), first_.end()), last_.back() + std::int64_t{1}};
    by_all_ = {*std::max_element(first_.begin(), first_.end()), last_.front() + std::int64_t{1}};
  }

  /// Keys that at least one query sees.
  KeyRange seen() const { return seen_; }
  /// Whether every query sees every key of the range.
  bool all_see(KeyRange keys) const {
    return by_all_.begin <= keys.begin && keys.end <= by_all_.end;
  }
  /// The part of a range that every query sees; where it is empty, both ends are within the range.
  KeyRange seen_by_all(KeyRange keys) const {
    const std::int64_t begin = std::clamp(by_all_.begin, keys.begin, keys.end);
    return {begin, std::clamp(by_all_.end, begin, keys.end)};
  }
  /// Which queries of one vector see the key.
  [[gnu::always_inline]] I32x8 lanes_that_see(std::int64_t key, std::int64_t vector) const {
    I32x8 first;
    I32x8 last;
    std::memcpy(&first, first_.data() + vector * kLanes, sizeof(first));
    std::memcpy(&last, last_.data() + vector * kLanes, sizeof(last));
    const auto j = static_cast<std::int32_t>(key);
    return (first <= j) & (last >= j);
  }

 private:
  std::array<std::int32_t, kStripColumns> first_{};
  std::array<std::int32_t, kStripColumns> last_{};
  KeyRange seen_;
  KeyRange by_all_;
};

/// The part of the scratch that belongs to one thread.
inline float* thread_scratch(const TensorView& scratch, int num_threads, int thread_idx) {
  return reinterpret_cast<float*>(static_cast<std::byte*>(scratch.raw_data()) +
                                  scratch.numel() / num_threads * thread_idx);
}

}  // namespace ulmus::ops::cpu
