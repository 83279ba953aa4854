#include "ulmus/comm/tag.h"

#include <ostream>

#include "ulmus/comm/transport.h"

namespace ulmus::comm {

static_assert(Tag::kGroupBits + Tag::kNumberBits + Tag::kKindBits == Transport::kTagBits);

std::string_view name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kAllGatherBytes:
      return "all_gather_bytes";
    case OperationKind::kAllReduceValues:
      return "all_reduce of host values";
    case OperationKind::kReduceScatter:
      return "reduce_scatter";
    case OperationKind::kAllGather:
      return "all_gather";
    case OperationKind::kAllReduce:
      return "all_reduce";
    case OperationKind::kAllToAll:
      return "all_to_all";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, const Tag& tag) {
  return out << name_of(tag.kind) << ' ' << tag.number << " of group #" << tag.group;
}

}  // namespace ulmus::comm
