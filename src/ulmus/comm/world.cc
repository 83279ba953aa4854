#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/communicator.h"
#include "ulmus/comm/ending.h"
#include "ulmus/comm/failure_watch.h"
#include "ulmus/comm/operations.h"

namespace ulmus::comm {

namespace {

/// FNV-1a, to compare what ranks ask for.
class Fingerprint {
 public:
  void add(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ = (hash_ ^ ((value >> static_cast<unsigned>(shift)) & 0xFFU)) * 0x100000001B3U;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325U;
};

/// What a rank asks make_group for.
struct GroupRequest {
  std::uint64_t lists = 0;
  std::uint64_t name_size = 0;
  std::array<char, 48> name{};  // its beginning

  GroupRequest() = default;
  GroupRequest(std::string_view full_name, const std::vector<std::vector<int>>& groups)
      : name_size(full_name.size()) {
    Fingerprint fingerprint;
    for (const std::vector<int>& members : groups) {
      fingerprint.add(members.size());
      for (const int member : members) {
        fingerprint.add(static_cast<std::uint64_t>(member));
      }
    }
    for (const char letter : full_name) {
      fingerprint.add(static_cast<std::uint64_t>(letter));
    }
    lists = fingerprint.value();
    full_name.copy(name.data(), name.size());
  }
  std::string_view short_name() const {
    return {name.data(), std::min<std::size_t>(name_size, name.size())};
  }
  friend bool operator==(const GroupRequest&, const GroupRequest&) = default;
};

/// The list that holds `rank`; Error unless the lists are a partition of the world.
const std::vector<int>& list_with(int rank, int size, const std::string& name,
                                  const std::vector<std::vector<int>>& groups) {
  std::vector<int> uses(static_cast<std::size_t>(size));
  for (const std::vector<int>& members : groups) {
    for (const int member : members) {
      ULMUS_CHECK(0 <= member && member < size, "group ", name, " has rank ", member,
                  " of a world of ", size);
      ++uses[static_cast<std::size_t>(member)];
    }
  }
  for (int member = 0; member < size; ++member) {
    const int times = uses[static_cast<std::size_t>(member)];
    ULMUS_CHECK(times == 1, "group ", name, " has rank ", member, ' ', times, " times");
  }
  return *std::ranges::find_if(groups, [&](const std::vector<int>& members) {
    return std::ranges::find(members, rank) != members.end();
  });
}

}  // namespace

World::World(std::unique_ptr<Transport> transport, const Options& options)
    : transport_(std::move(transport)),
      watch_(std::make_unique<FailureWatch>(*transport_, options.timeout)),
      message_bytes_(options.message_bytes) {
  ULMUS_CHECK(message_bytes_ > 0, "messages of ", message_bytes_, " bytes");
  std::vector<int> members(static_cast<std::size_t>(size()));
  std::iota(members.begin(), members.end(), 0);
  all_ = std::make_unique<Communicator>(Communicator::Key(), *this, take_group_id(), "world",
                                        std::move(members));
}

World::~World() = default;

int World::rank() const { return transport_->rank(); }
int World::size() const { return transport_->size(); }
std::string_view World::backend() const { return transport_->backend(); }
bool World::has_memory() const { return transport_->has_memory(); }
int World::node_leader() const { return transport_->node_leader(); }
std::chrono::milliseconds World::timeout() const { return watch_->timeout(); }
Communicator& World::all() { return *all_; }

std::uint32_t World::take_group_id() {
  ULMUS_CHECK(num_groups_ < Tag::kNumGroups, "a world has at most ", Tag::kNumGroups, " groups");
  return static_cast<std::uint32_t>(num_groups_++);
}

void World::check_agreement(const std::string& name, const std::vector<std::vector<int>>& groups) {
  const GroupRequest own(name, groups);
  std::vector<GroupRequest> requests(static_cast<std::size_t>(size()));
  all_->all_gather_bytes(std::as_writable_bytes(std::span(requests)),
                         std::as_bytes(std::span(&own, 1)));
  for (std::size_t other = 1; other < requests.size(); ++other) {
    if (requests[other] == requests[0]) continue;
    const bool same_name = requests[0].short_name() == requests[other].short_name();
    throw Error(
        concat("ranks disagree about a group: rank 0 makes ", requests[0].short_name(), ", rank ",
               other, " makes ", requests[other].short_name(), same_name ? " of other ranks" : ""),
        ExitCode::kFailed, ErrorScope::kEveryRank);
  }
}

std::unique_ptr<Communicator> World::make_group(std::string name,
                                                const std::vector<std::vector<int>>& groups) {
  const std::vector<int>& members = list_with(rank(), size(), name, groups);
  check_agreement(name, groups);
  auto group = std::make_unique<Communicator>(Communicator::Key(), *this, take_group_id(),
                                              std::move(name), members);
  group->barrier();
  group->reset_traffic();
  return group;
}

void World::progress() {
  watch_->read_notices();
  watch_->check();
  advance_all();
}

void World::fail(std::string_view why) noexcept { watch_->fail(why); }

Parting World::part(const Ending& ending, std::chrono::milliseconds patience) noexcept {
  try {
    watch_->end(ending);
    for (const Clock::time_point end = Clock::now() + patience;;) {
      watch_->read_notices();
      const std::optional<Parting> parting = watch_->parting();
      if (parting) return *parting;
      if (Clock::now() >= end) return Parting::kAlone;
      transport_->wait_for_change(end);
    }
  } catch (...) {
    return Parting::kAlone;  // the library fails, or memory is out
  }
}

void World::wait_to_be_ended(std::chrono::milliseconds patience) noexcept {
  try {
    for (const Clock::time_point end = Clock::now() + patience; Clock::now() < end;) {
      transport_->wait_for_change(end);
    }
  } catch (...) {
    return;  // sooner, then
  }
}

void World::enroll(const Operation& /*operation*/) {
  ++num_operations_;
  if (num_operations_ > under_way_.capacity()) under_way_.reserve(2 * num_operations_);
}

void World::reserve_for(const Operation& operation) {
  num_requests_ += operation.num_requests_;
  transport_->reserve(num_requests_);
}

void World::withdraw(const Operation& operation) noexcept {
  --num_operations_;
  num_requests_ -= operation.num_requests_;
}

void World::add(Operation& operation) {
  for (const Operation* other : under_way_) {
    ULMUS_CHECK(&other->group_ != &operation.group_ ||
                    operation.number_ - other->number_ < Tag::kNumNumbers,
                operation.description(), " starts while ", other->description(),
                " is under way: at most ", Tag::kNumNumbers, " lie between");
  }
  under_way_.push_back(&operation);
}

void World::remove(Operation& operation) noexcept { std::erase(under_way_, &operation); }

void World::advance_all() {
  for (std::size_t i = 0; i < under_way_.size();) {
    Operation& operation = *under_way_[i];
    try {
      if (!operation.advance()) {
        ++i;
        continue;
      }
    } catch (const Error& error) {
      const std::string what = concat(operation.description(), ": ", error.what());
      watch_->note_own_failure(what);
      throw Error(what, error.exit_code(), error.scope());
    }
    operation.state_ = Operation::State::kDone;
    record(operation, TraceEvent::Track::kTransfers, operation.begin_);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void World::record(const Operation& operation, TraceEvent::Track track,
                   TraceEvent::Clock::time_point begin) {
  if (trace_ == nullptr) return;
  trace_->record({.name = name_of(operation.kind_),
                  .group = operation.group_.name(),
                  .track = track,
                  .number = operation.number_,
                  .begin = begin,
                  .end = TraceEvent::Clock::now()});
}

void World::wait_for(Operation& operation) {
  const Clock::time_point start = Clock::now();
  Clock::time_point last_step = start;
  std::int64_t num_steps = operation.num_steps_;
  const auto waiting = [&] {
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    return concat("rank ", rank(), " waits for ", operation.awaited_ranks(), " in ",
                  operation.description(), " (", in_seconds(time), ")");
  };
  for (;;) {
    watch_->read_notices();
    if (watch_->has_failed()) watch_->raise(waiting());
    advance_all();
    if (operation.state_ == Operation::State::kDone && !watch_->is_patience_over()) {
      record(operation, TraceEvent::Track::kWaits, start);
      return;
    }
    if (num_steps != operation.num_steps_) {
      num_steps = operation.num_steps_;
      last_step = Clock::now();
    }
    const Clock::time_point deadline = last_step + watch_->timeout();
    if (watch_->must_speak(deadline)) watch_->speak(waiting());
    watch_->conclude_if_due();
    transport_->wait_for_change(watch_->due(deadline));
  }
}

}  // namespace ulmus::comm
