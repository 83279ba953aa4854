#include "ulmus/parallel/ranks.h"

#include "ulmus/base/check.h"

namespace ulmus::parallel {

namespace {

Layout validated(Layout layout, const comm::World& world) {
  ULMUS_CHECK(layout.ranks == world.size(), "a layout of ", layout.ranks, " ranks in a world of ",
              world.size());
  layout.validate();
  return layout;
}

}  // namespace

Ranks::Ranks(comm::World& world, const Layout& layout)
    : world_(world),
      layout_(validated(layout, world)),
      here_(coordinates_of(world.rank(), layout)),
      node_(comm::find_node(world)),
      dense_(world.make_group("dense", dense_groups(layout))),
      experts_(world.make_group("expert", expert_groups(layout))),
      replicas_(world.make_group("expert_replica", expert_replica_groups(layout))) {}

}  // namespace ulmus::parallel
