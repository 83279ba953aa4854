#include "ulmus/comm/meta/meta_transport.h"

#include <algorithm>

#include "ulmus/base/check.h"

namespace ulmus::comm {

namespace {

RequestId count(std::vector<MessageCount>& counts, int peer, std::size_t num_bytes) {
  MessageCount& of_peer = counts.at(static_cast<std::size_t>(peer));
  ++of_peer.messages;
  of_peer.bytes += static_cast<std::int64_t>(num_bytes);
  return 0;
}

}  // namespace

MetaTransport::MetaTransport(int rank, int size) : rank_(rank), size_(size) {
  ULMUS_CHECK(0 <= rank && rank < size, "rank ", rank, " of a world of ", size);
  reset_counts();
}

RequestId MetaTransport::start_send(int to, std::uint32_t /*tag*/,
                                    std::span<const std::byte> bytes) {
  return count(sent_, to, bytes.size());
}

RequestId MetaTransport::start_receive(int from, std::uint32_t /*tag*/,
                                       std::span<std::byte> bytes) {
  return count(received_, from, bytes.size());
}

void MetaTransport::reset_counts() {
  sent_.assign(static_cast<std::size_t>(size_), {});
  received_.assign(static_cast<std::size_t>(size_), {});
}

}  // namespace ulmus::comm
