#pragma once

#include <memory>

#include "ulmus/comm/communicator.h"
#include "ulmus/comm/node.h"
#include "ulmus/parallel/mesh.h"
#include "ulmus/parallel/parameter_store.h"

namespace ulmus::parallel {

/// This rank and its groups in a layout. Collective: every rank of the world makes one, with the
/// same layout; every group has been used once when the constructor returns.
class Ranks {
 public:
  /// `world` outlives this. InputError when the layout does not fit its ranks.
  Ranks(comm::World& world, const Layout& layout);

  comm::World& world() const { return world_; }
  const Layout& layout() const { return layout_; }
  const Coordinates& here() const { return here_; }
  /// This rank's machine.
  const comm::Node& node() const { return node_; }
  bool is_first() const { return world_.rank() == 0; }

  /// Ranks that hold the same dense parameters and take different sequences.
  comm::Communicator& dense() const { return *dense_; }
  /// Ranks that exchange token rows.
  comm::Communicator& experts() const { return *experts_; }
  /// Ranks that hold the same experts.
  comm::Communicator& replicas() const { return *replicas_; }
  FamilyGroups families() const { return {.dense = dense_.get(), .expert = replicas_.get()}; }

 private:
  comm::World& world_;
  Layout layout_;
  Coordinates here_;
  comm::Node node_;
  std::unique_ptr<comm::Communicator> dense_;
  std::unique_ptr<comm::Communicator> experts_;
  std::unique_ptr<comm::Communicator> replicas_;
};

}  // namespace ulmus::parallel
