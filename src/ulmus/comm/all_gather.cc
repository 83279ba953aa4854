#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/operations.h"
#include "ulmus/comm/pieces.h"

namespace ulmus::comm {

AllGather::AllGather(Communicator& group, TensorView buffer, PieceBounds begin, Device& device)
    : Operation(group, OperationKind::kAllGather),
      buffer_(static_cast<std::byte*>(buffer.raw_data())),
      element_bytes_(size_of(buffer.dtype())),
      begin_(std::move(begin)) {
  check_device(device);
  check_pieces(begin_, buffer, group);
  const auto requests_of_piece = [&](int member) {
    return requests_of(static_cast<std::int64_t>(piece(member).size()));
  };
  std::size_t num_requests = static_cast<std::size_t>(size() - 1) * requests_of_piece(rank());
  for (int member = 0; member < size(); ++member) {
    if (member != rank()) num_requests += requests_of_piece(member);
  }
  announce(num_requests);
}

std::span<std::byte> AllGather::piece(int member) const {
  const auto idx = static_cast<std::size_t>(member);
  return {buffer_ + begin_[idx] * element_bytes_,
          static_cast<std::size_t>((begin_[idx + 1] - begin_[idx]) * element_bytes_)};
}

void AllGather::start() {
  launch([&] {
    exchange_.start([&](int /*to*/) { return piece(rank()); },
                    [&](int from) { return piece(from); });
  });
}

}  // namespace ulmus::comm
