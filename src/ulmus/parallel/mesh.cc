#include "ulmus/parallel/mesh.h"

#include <map>
#include <tuple>

#include "ulmus/base/check.h"

namespace ulmus::parallel {

namespace {

/// Ranks with the same key, in rising order; groups in the order of their first rank.
template <class Key>
Groups groups_by(const Layout& layout, const Key& key) {
  std::map<decltype(key(Coordinates{})), std::size_t> known;
  Groups groups;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const auto [at, is_new] = known.try_emplace(key(coordinates_of(rank, layout)), groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(rank);
  }
  return groups;
}

}  // namespace

void Layout::validate() const {
  ULMUS_CHECK(ranks >= 1 && pipeline >= 1 && context >= 1 && expert >= 1, "ranks ", ranks,
              ", pipeline ", pipeline, ", context ", context, ", expert ", expert);
  if (ranks % (pipeline * context) != 0) {
    fail_input("parallel.pipeline = ", pipeline, " and parallel.context = ", context,
               " do not divide ", ranks, " ranks");
  }
  if (stage_ranks() % expert != 0) {
    fail_input("parallel.expert = ", expert, " does not divide the ", stage_ranks(),
               " ranks of a pipeline stage");
  }
}

std::string Layout::text() const {
  std::string text = concat(ranks, ranks == 1 ? " rank" : " ranks");
  if (ranks == 1) return text;
  text += concat(": data ", data());
  if (pipeline > 1) text += concat(", pipeline ", pipeline);
  if (context > 1) text += concat(", context ", context);
  if (expert > 1) text += concat(", expert ", expert, " x ", expert_replicas());
  return text;
}

Coordinates coordinates_of(int rank, const Layout& layout) {
  ULMUS_CHECK(0 <= rank && rank < layout.ranks, "rank ", rank, " of ", layout.ranks);
  const int in_stage = rank % layout.stage_ranks();
  return {.stage = rank / layout.stage_ranks(),
          .data = in_stage / layout.context,
          .context = in_stage % layout.context,
          .replica = in_stage / layout.expert,
          .expert = in_stage % layout.expert};
}

Groups dense_groups(const Layout& layout) {
  return groups_by(layout, [](const Coordinates& at) { return at.stage; });
}

Groups expert_groups(const Layout& layout) {
  return groups_by(layout, [](const Coordinates& at) { return std::tuple(at.stage, at.replica); });
}

Groups expert_replica_groups(const Layout& layout) {
  return groups_by(layout, [](const Coordinates& at) { return std::tuple(at.stage, at.expert); });
}

Groups pipeline_groups(const Layout& layout) {
  return groups_by(layout, [](const Coordinates& at) { return std::tuple(at.data, at.context); });
}

}  // namespace ulmus::parallel
