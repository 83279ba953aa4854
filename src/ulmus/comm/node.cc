#include "ulmus/comm/node.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace ulmus::comm {

namespace {

/// What a rank says about where it is.
struct Place {
  std::array<char, 256> host{};
  cpu_set_t cores{};
};

Place find_place() {
  Place place;
  ::gethostname(place.host.data(), place.host.size() - 1);
  CPU_ZERO(&place.cores);
  if (::sched_getaffinity(0, sizeof(place.cores), &place.cores) != 0) CPU_SET(0, &place.cores);
  return place;
}

}  // namespace

Node find_node(World& world) {
  const std::array<Place, 1> mine = {find_place()};
  std::vector<Place> all(static_cast<std::size_t>(world.size()), mine[0]);
  const bool is_paper = world.backend() == "meta";
  if (!is_paper) {
    world.all().all_gather_bytes(std::as_writable_bytes(std::span(all)),
                                 std::as_bytes(std::span(mine)));
  }
  Node node = {.ranks = 0};
  cpu_set_t together;
  CPU_ZERO(&together);
  for (const Place& place : all) {
    if (place.host != mine[0].host) continue;
    ++node.ranks;
    CPU_OR(&together, &together, &place.cores);
  }
  if (is_paper) node.ranks = 1;
  node.cores = std::max(1, CPU_COUNT(&together));
  node.threads_of_rank = std::max(1, std::min(CPU_COUNT(&mine[0].cores), node.cores / node.ranks));
  return node;
}

}  // namespace ulmus::comm
