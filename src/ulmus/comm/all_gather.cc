#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/operations.h"
#include "ulmus/comm/pieces.h"

namespace ulmus::comm {

AllGather::AllGather(Communicator& group, TensorView buffer, PieceBounds begin, Device& device)
    : Operation(group, OperationKind::kAllGather),
      buffer_(static_cast<std::byte*>(buffer.raw_data())),
      element_bytes_(size_of(buffer.dtype())),
      begin_(std::move(begin)),
      sends_(static_cast<std::size_t>(group.size())),
      receives_(static_cast<std::size_t>(group.size())) {
  check_device(device);
  check_pieces(begin_, buffer, group);
}

std::span<std::byte> AllGather::piece(int member) const {
  const auto idx = static_cast<std::size_t>(member);
  return {buffer_ + begin_[idx] * element_bytes_,
          static_cast<std::size_t>((begin_[idx + 1] - begin_[idx]) * element_bytes_)};
}

void AllGather::start() {
  begin();
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    const int to = (rank() + step) % size();
    receive(receives_[static_cast<std::size_t>(from)], from, piece(from));
    send(sends_[static_cast<std::size_t>(to)], to, piece(rank()));
  }
  launch();
}

bool AllGather::advance() {
  const bool received = advance_transfers(receives_);
  return advance_transfers(sends_) && received;
}

void AllGather::list_awaited(std::vector<int>& members) const {
  add_awaited(members, receives_);
  add_awaited(members, sends_);
}

}  // namespace ulmus::comm
