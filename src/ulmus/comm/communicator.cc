#include "ulmus/comm/communicator.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/host_operations.h"
#include "ulmus/comm/reduce.h"

namespace ulmus::comm {

namespace {

bool has_common_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<> before;  // of pointers into different memory, too
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

}  // namespace

Communicator::Communicator(Key /*key*/, World& world, std::uint32_t id, std::string name,
                           std::vector<int> members)
    : world_(world), id_(id), name_(std::move(name)), members_(std::move(members)) {
  const auto own = std::find(members_.begin(), members_.end(), world.rank());
  ULMUS_DCHECK(own != members_.end(), "rank ", world.rank(), " is not in group ", name_);
  rank_ = static_cast<int>(own - members_.begin());
  host_ = std::make_unique<HostOperations>(*this);
}

Communicator::~Communicator() = default;

int Communicator::rank() const { return rank_; }
int Communicator::size() const { return static_cast<int>(members_.size()); }
std::string_view Communicator::name() const { return name_; }
const Traffic& Communicator::traffic() const { return traffic_; }
void Communicator::reset_traffic() { traffic_ = {}; }

int Communicator::world_rank(int member) const {
  ULMUS_CHECK(0 <= member && member < size(), "member ", member, " of group ", name_, " of ",
              size());
  return members_[static_cast<std::size_t>(member)];
}

void Communicator::barrier() {
  host_->barrier.start();
  host_->barrier.wait();
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  ULMUS_CHECK(0 <= root && root < size(), "root ", root, " of group ", name_, " of ", size());
  host_->broadcast.start(bytes, root);
  host_->broadcast.wait();
}

void Communicator::broadcast(std::string& text, int root) {
  std::array<std::int64_t, 1> length = {static_cast<std::int64_t>(text.size())};
  broadcast(std::as_writable_bytes(std::span(length)), root);
  text.resize(static_cast<std::size_t>(length[0]));
  broadcast(std::as_writable_bytes(std::span(text)), root);
}

void Communicator::all_gather_bytes(std::span<std::byte> all, std::span<const std::byte> mine) {
  ULMUS_CHECK(all.size() == mine.size() * members_.size(), all.size(), " bytes for ", mine.size(),
              " of each of ", size(), " ranks");
  const std::byte* own_place = all.data() + static_cast<std::size_t>(rank_) * mine.size();
  ULMUS_CHECK(mine.data() == own_place || !has_common_bytes(all, mine), "rank ", rank(),
              " gives bytes of another rank's place in group ", name_);
  host_->gather.start(all, mine);
  host_->gather.wait();
}

template <class T>
void Communicator::all_reduce_values(std::span<T> values, ReduceOp op) {
  const std::span<std::byte> mine = std::as_writable_bytes(values);
  std::vector<std::byte>& scratch = host_->scratch;
  scratch.resize(std::max(scratch.size(), mine.size() * members_.size()));
  host_->reduce.start(std::span(scratch).first(mine.size() * members_.size()), mine);
  host_->reduce.wait();
  if (!world_.has_memory()) return;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    host_->sources[member] = scratch.data() + member * mine.size();
  }
  comm::reduce(mine.data(), host_->sources, kDTypeOf<T>, op,
               static_cast<std::int64_t>(values.size()));
}

void Communicator::all_reduce(std::span<std::int64_t> values, ReduceOp op) {
  all_reduce_values(values, op);
}

void Communicator::all_reduce(std::span<double> values, ReduceOp op) {
  all_reduce_values(values, op);
}

}  // namespace ulmus::comm
