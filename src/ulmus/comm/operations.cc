#include "ulmus/comm/operations.h"

#include <algorithm>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/failure_watch.h"

namespace ulmus::comm {

Operation::Operation(Communicator& group, OperationKind kind) : group_(group), kind_(kind) {
  group_.world_.enroll(*this);
}

Operation::~Operation() {
  // Its messages went before, with the members of its kind.
  if (state_ == State::kRunning) group_.world_.remove(*this);
  group_.world_.withdraw(*this);
}

bool Operation::is_under_way() const { return state_ != State::kIdle; }

void Operation::wait() {
  try {
    if (state_ == State::kRunning) group_.world_.wait_for(*this);
  } catch (...) {
    give_up();
    throw;
  }
  state_ = State::kIdle;
}

void Operation::give_up() noexcept {
  if (state_ == State::kRunning) group_.world_.remove(*this);
  state_ = State::kIdle;
  abandon();
}

std::size_t Operation::requests_of(std::int64_t num_bytes) const {
  const Chunks chunks{.total_bytes = num_bytes, .chunk_bytes = group_.world_.message_bytes_};
  return static_cast<std::size_t>(std::min(Transfer::kWindow, chunks.count()));
}

void Operation::announce(std::size_t num_requests) {
  num_requests_ = num_requests;
  group_.world_.reserve_for(*this);
}

void Operation::begin() {
  group_.world_.watch_->check();
  ULMUS_CHECK(state_ == State::kIdle, description(), " is started and not yet waited for");
  number_ = group_.num_started_ + 1;
  num_steps_ = 0;
  begin_ = TraceEvent::Clock::now();
  group_.world_.add(*this);
  ++group_.num_started_;
  ++group_.traffic_.operations;
  state_ = State::kRunning;
}

Channel Operation::channel(int member) {
  const Tag tag{.group = group_.id_,
                .number = static_cast<std::uint32_t>(number_ % Tag::kNumNumbers),
                .kind = kind_};
  return {*group_.world_.transport_, group_.world_rank(member), tag.packed()};
}

void Operation::send(Transfer& transfer, int member, std::span<const std::byte> bytes) {
  send(transfer, member, bytes, group_.world_.message_bytes_);
}

void Operation::send(Transfer& transfer, int member, std::span<const std::byte> bytes,
                     std::int64_t chunk_bytes) {
  group_.traffic_.sent_bytes += static_cast<std::int64_t>(bytes.size());
  transfer.send(channel(member), bytes, chunk_bytes);
}

void Operation::receive(Transfer& transfer, int member, std::span<std::byte> bytes) {
  transfer.receive(channel(member), bytes, group_.world_.message_bytes_);
}

bool Operation::advance_transfers(std::span<Transfer> transfers) {
  bool all_done = true;
  for (Transfer& transfer : transfers) {
    count_steps(transfer.advance());
    all_done = all_done && transfer.is_done();
  }
  return all_done;
}

void Operation::add_awaited(std::vector<int>& members, std::span<const Transfer> transfers) {
  for (std::size_t member = 0; member < transfers.size(); ++member) {
    if (!transfers[member].is_done()) members.push_back(static_cast<int>(member));
  }
}

void Operation::abandon_transfers(std::span<Transfer> transfers) noexcept {
  for (Transfer& transfer : transfers) {
    transfer.abandon();
  }
}

bool Operation::has_memory() const { return group_.world_.transport_->has_memory(); }

void Operation::check_device(const Device& device) const {
  ULMUS_CHECK(device.backend() != Backend::kMeta || !has_memory(), name_of(kind_), " of group ",
              group_.name(), ": ranks that talk by ", group_.world_.backend(),
              " need memory, and a meta device has none");
}

std::string Operation::description() const {
  return concat(name_of(kind_), ' ', number_, " of group ", group_.name());
}

std::string Operation::awaited_ranks() const {
  std::vector<int> ranks;
  list_awaited(ranks);
  for (int& rank : ranks) {
    rank = group_.world_rank(rank);
  }
  return name_ranks(std::move(ranks));
}

PairwiseExchange::PairwiseExchange(Operation& operation)
    : operation_(operation),
      sends_(static_cast<std::size_t>(operation.size())),
      receives_(static_cast<std::size_t>(operation.size())) {}

void PairwiseExchange::start_with(int member, std::span<const std::byte> to_send,
                                  std::span<std::byte> to_receive) {
  operation_.receive(receives_[static_cast<std::size_t>(member)], member, to_receive);
  operation_.send(sends_[static_cast<std::size_t>(member)], member, to_send);
}

bool PairwiseExchange::advance() {
  const bool received = advance_receives();
  return advance_sends() && received;
}

void PairwiseExchange::add_awaited(std::vector<int>& members) const {
  Operation::add_awaited(members, receives_);
  Operation::add_awaited(members, sends_);
}

void PairwiseExchange::abandon() noexcept {
  Operation::abandon_transfers(receives_);
  Operation::abandon_transfers(sends_);
}

}  // namespace ulmus::comm
