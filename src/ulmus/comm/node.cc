#include "ulmus/comm/node.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <functional>
#include <system_error>
#include <thread>

namespace ulmus::comm {

namespace {

/// More cores than any kernel knows.
constexpr std::size_t kMaxWords = 1 << 14U;

/// The affinity mask of this thread. Systems with many cores refuse a mask that is too short.
CoreMask own_mask() {
  for (CoreMask mask(16);; mask.resize(2 * mask.size())) {
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (::sched_getaffinity(0, mask.size() * sizeof(mask[0]), set) == 0) return mask;
    if (errno != EINVAL || mask.size() >= kMaxWords) {
      throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
    }
  }
}

int num_cores(const CoreMask& mask) {
  int count = 0;
  for (const std::uint64_t word : mask) {
    count += std::popcount(word);
  }
  return count;
}

/// The mask of a thread that asks for every core: the kernel leaves out what the process may not
/// have at all (offline, or another container's), but not what it was merely not bound to.
CoreMask unbound_mask(const CoreMask& own) {
  CoreMask mask = own;
  std::jthread([&mask] {
    const CoreMask every(mask.size(), ~std::uint64_t{0});
    const auto* set = reinterpret_cast<const cpu_set_t*>(every.data());
    if (::sched_setaffinity(0, every.size() * sizeof(every[0]), set) == 0) mask = own_mask();
  }).join();
  return mask;
}

/// Every rank's vector; shorter ones are filled up with zeros.
std::vector<CoreMask> gather_masks(Communicator& group, CoreMask mine) {
  std::array<std::int64_t, 1> words = {static_cast<std::int64_t>(mine.size())};
  group.all_reduce(words, ReduceOp::kMax);
  mine.resize(static_cast<std::size_t>(words[0]));
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather_bytes(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(mine)));
  std::vector<CoreMask> masks;
  for (auto begin = all.begin(); begin != all.end(); begin += words[0]) {
    masks.emplace_back(begin, begin + words[0]);
  }
  return masks;
}

}  // namespace

Place find_place(int leader) {
  Place place = {.leader = leader, .cores = own_mask()};
  place.online = num_cores(unbound_mask(place.cores));
  return place;
}

Node node_of(std::span<const Place> places, int rank) {
  const Place& own = places[static_cast<std::size_t>(rank)];
  Node node = {.ranks = 0, .threads_of_rank = num_cores(own.cores)};
  CoreMask together;
  for (const Place& place : places) {
    if (place.leader != own.leader) continue;
    ++node.ranks;
    together.resize(std::max(together.size(), place.cores.size()));
    std::transform(place.cores.begin(), place.cores.end(), together.begin(), together.begin(),
                   std::bit_or<>());
    node.online_cores = std::max(node.online_cores, static_cast<int>(place.online));
  }
  node.cores = std::max(1, num_cores(together));
  node.online_cores = std::max(node.online_cores, node.cores);
  node.threads_of_rank = std::clamp(node.cores / node.ranks, 1, std::max(1, node.threads_of_rank));
  return node;
}

Node find_node(World& world) {
  const Place own = find_place(world.node_leader());
  if (!world.has_memory()) return node_of(std::span(&own, 1), 0);
  struct Numbers {
    std::int64_t leader;
    std::int64_t online;
  };
  const std::array<Numbers, 1> mine = {{{own.leader, own.online}}};
  std::vector<Numbers> numbers(static_cast<std::size_t>(world.size()));
  world.all().all_gather_bytes(std::as_writable_bytes(std::span(numbers)),
                               std::as_bytes(std::span(mine)));
  std::vector<CoreMask> masks = gather_masks(world.all(), own.cores);
  std::vector<Place> places;
  places.reserve(numbers.size());
  for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
    places.push_back({.leader = static_cast<int>(numbers[rank].leader),
                      .cores = std::move(masks[rank]),
                      .online = numbers[rank].online});
  }
  return node_of(places, world.rank());
}

}  // namespace ulmus::comm
