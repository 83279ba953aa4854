#include "ulmus/comm/host_operations.h"

#include <bit>
#include <cstring>

#include "ulmus/base/check.h"

namespace ulmus::comm {

void Barrier::start() {
  launch([&] {
    distance_ = 1;
    if (distance_ < size()) start_round();
  });
}

void Barrier::start_round() {
  receive(receive_, before(), {});
  send(send_, (rank() + distance_) % size(), {});
}

bool Barrier::advance() {
  while (distance_ < size()) {
    count_steps(send_.advance() + receive_.advance());
    if (!send_.is_done() || !receive_.is_done()) return false;
    distance_ *= 2;
    if (distance_ < size()) start_round();
  }
  return true;
}

void Barrier::list_awaited(std::vector<int>& members) const {
  if (!receive_.is_done()) members.push_back(before());
  if (!send_.is_done()) members.push_back((rank() + distance_) % size());
}

void Barrier::abandon() noexcept {
  send_.abandon();
  receive_.abandon();
}

Broadcast::Broadcast(Communicator& group)
    : Operation(group, OperationKind::kBroadcast),
      sends_(static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(group.size())))) {
  announce((sends_.size() + 1) * static_cast<std::size_t>(Transfer::kWindow));
}

void Broadcast::start(std::span<std::byte> bytes, int root) {
  launch([&] {
    root_ = root;
    bytes_ = bytes;
    distance_ = (rank() - root + size()) % size();
    // The lowest set bit: the parent lies that far back, the subtree of this rank is that wide.
    reach_ = distance_ == 0 ? size() : distance_ & -distance_;
    passed_on_ = false;
    if (distance_ != 0) receive(receive_, member(distance_ - reach_), bytes_);
  });
}

void Broadcast::pass_on() {
  passed_on_ = true;
  for (std::size_t i = sends_.size(); i-- > 0;) {
    const int step = 1 << i;
    if (step < reach_ && distance_ + step < size()) {
      send(sends_[i], member(distance_ + step), bytes_);
    }
  }
}

bool Broadcast::advance() {
  count_steps(receive_.advance());
  if (!receive_.is_done()) return false;
  if (!passed_on_) pass_on();
  return advance_transfers(sends_);
}

void Broadcast::list_awaited(std::vector<int>& members) const {
  if (!receive_.is_done()) members.push_back(member(distance_ - reach_));
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    if (!sends_[i].is_done()) members.push_back(member(distance_ + (1 << i)));
  }
}

void Broadcast::abandon() noexcept {
  receive_.abandon();
  abandon_transfers(sends_);
}

AllGatherBytes::AllGatherBytes(Communicator& group, OperationKind kind) : Operation(group, kind) {
  announce(2 * static_cast<std::size_t>(Transfer::kWindow * (size() - 1)));
}

void AllGatherBytes::start(std::span<std::byte> all, std::span<const std::byte> mine) {
  const auto place = [&](int member) {
    return all.subspan(static_cast<std::size_t>(member) * mine.size(), mine.size());
  };
  launch([&] {
    exchange_.start([&](int /*to*/) { return mine; }, place);
    for (int member = 0; member < size() && !mine.empty(); ++member) {
      if (has_memory() && member != rank()) continue;
      // Not onto itself: others may be reading it.
      if (place(member).data() == mine.data()) continue;
      std::memcpy(place(member).data(), mine.data(), mine.size());
    }
  });
}

HostOperations::HostOperations(Communicator& group)
    : sources(static_cast<std::size_t>(group.size())),
      barrier(group),
      broadcast(group),
      gather(group, OperationKind::kAllGatherBytes),
      reduce(group, OperationKind::kAllReduceValues) {}

}  // namespace ulmus::comm
