#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace ulmus::comm {

/// What members of a group do together.
enum class OperationKind : std::uint8_t {
  kBarrier,
  kBroadcast,
  kAllGatherBytes,
  kAllReduceValues,
  kReduceScatter,
  kAllGather,
  kAllReduce,
  kAllToAll,
};

/// "barrier", "broadcast", ...
std::string_view name_of(OperationKind kind);

/// Which operation a message belongs to. Members of a group number its operations alike, so that
/// messages find each other without any agreement; the kind only tells whether ranks that meet in
/// one number do the same.
struct Tag {
  static constexpr std::uint32_t kGroupBits = 8;
  static constexpr std::uint32_t kNumberBits = 11;
  static constexpr std::uint32_t kKindBits = 4;
  static constexpr std::int64_t kNumGroups = std::int64_t{1} << kGroupBits;
  /// Operations of one group that may be under way at once.
  static constexpr std::int64_t kNumNumbers = std::int64_t{1} << kNumberBits;

  std::uint32_t group = 0;
  std::uint32_t number = 0;  ///< in the group, mod kNumNumbers
  OperationKind kind = OperationKind::kBarrier;

  constexpr std::uint32_t packed() const {
    return (((group << kNumberBits) | number) << kKindBits) | static_cast<std::uint32_t>(kind);
  }
  static constexpr Tag unpacked(std::uint32_t tag) {
    return {.group = tag >> (kNumberBits + kKindBits),
            .number = (tag >> kKindBits) & ((1U << kNumberBits) - 1U),
            .kind = static_cast<OperationKind>(tag & ((1U << kKindBits) - 1U))};
  }
  /// Group and number of a packed tag.
  static constexpr std::uint32_t operation(std::uint32_t tag) { return tag >> kKindBits; }
};

/// "broadcast 5 of group #2"
std::ostream& operator<<(std::ostream& out, const Tag& tag);

}  // namespace ulmus::comm
