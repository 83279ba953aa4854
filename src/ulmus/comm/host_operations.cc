#include "ulmus/comm/host_operations.h"

#include <bit>
#include <cstring>

#include "ulmus/base/check.h"

namespace ulmus::comm {

void Barrier::start() {
  begin();
  distance_ = 1;
  if (distance_ < size()) start_round();
  launch();
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

Broadcast::Broadcast(Communicator& group)
    : Operation(group, OperationKind::kBroadcast),
      sends_(static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(group.size())))) {}

void Broadcast::start(std::span<std::byte> bytes, int root) {
  begin();
  root_ = root;
  bytes_ = bytes;
  distance_ = (rank() - root + size()) % size();
  // The lowest set bit: the parent lies that far back, the subtree of this rank is that wide.
  reach_ = distance_ == 0 ? size() : distance_ & -distance_;
  passed_on_ = false;
  if (distance_ != 0) receive(receive_, member(distance_ - reach_), bytes_);
  launch();
}

void Broadcast::pass_on() {
  passed_on_ = true;
  for (std::size_t i = sends_.size(); i-- > 0;) {
    const int step = 1 << i;
    if (step < reach_ && distance_ + step < size())
      send(sends_[i], member(distance_ + step), bytes_);
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

Gather::Gather(Communicator& group, OperationKind kind)
    : Operation(group, kind),
      sends_(static_cast<std::size_t>(group.size())),
      receives_(static_cast<std::size_t>(group.size())) {}

void Gather::start(std::span<std::byte> all, std::span<const std::byte> mine) {
  begin();
  for (int step = 1; step < size(); ++step) {
    const auto from = static_cast<std::size_t>((rank() - step + size()) % size());
    const auto to = static_cast<std::size_t>((rank() + step) % size());
    receive(receives_[from], static_cast<int>(from), all.subspan(from * mine.size(), mine.size()));
    send(sends_[to], static_cast<int>(to), mine);
  }
  for (int member = 0; member < size() && !mine.empty(); ++member) {
    if (has_memory() && member != rank()) continue;
    std::byte* place = all.data() + static_cast<std::size_t>(member) * mine.size();
    std::memmove(place, mine.data(), mine.size());  // may be its own place already
  }
  launch();
}

bool Gather::advance() {
  const bool received = advance_transfers(receives_);
  return advance_transfers(sends_) && received;
}

void Gather::list_awaited(std::vector<int>& members) const {
  add_awaited(members, receives_);
  add_awaited(members, sends_);
}

HostOperations::HostOperations(Communicator& group)
    : barrier(group),
      broadcast(group),
      gather(group, OperationKind::kAllGatherBytes),
      reduce(group, OperationKind::kAllReduceValues),
      sources(static_cast<std::size_t>(group.size())) {}

}  // namespace ulmus::comm
