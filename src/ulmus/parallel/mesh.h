#pragma once

#include <string>
#include <vector>

namespace ulmus::parallel {

/// How many ranks share what.
struct Layout {
  int ranks = 1;     ///< W
  int pipeline = 1;  ///< P: stages of the model
  int context = 1;   ///< C: ranks that share a sequence
  int expert = 1;    ///< M_E: ranks that share the experts

  /// Ranks of a pipeline stage.
  int stage_ranks() const { return ranks / pipeline; }
  /// D: ranks of a stage that take different sequences.
  int data() const { return stage_ranks() / context; }
  /// D_E: copies of each expert in a stage.
  int expert_replicas() const { return stage_ranks() / expert; }
  /// InputError naming the keys when the numbers do not multiply up.
  void validate() const;
  /// "4 ranks: data 4, expert 2 x 2 copies"
  std::string text() const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Where a rank stands in the two views of its stage (report 2.10):
///
///   rank = (stage * D   + data)    * C   + context
///        = (stage * D_E + replica) * M_E + expert
struct Coordinates {
  int stage = 0;
  int data = 0;
  int context = 0;
  int replica = 0;  ///< which copy of the experts
  int expert = 0;   ///< which share of the experts
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};
Coordinates coordinates_of(int rank, const Layout& layout);

/// Ranks in groups; every rank is in exactly one group of a kind.
using Groups = std::vector<std::vector<int>>;

/// Ranks that hold the same dense parameters: a stage.
Groups dense_groups(const Layout& layout);
/// Ranks that divide the experts among them and exchange token rows: neighbours.
Groups expert_groups(const Layout& layout);
/// Ranks that hold the same experts.
Groups expert_replica_groups(const Layout& layout);
/// Ranks that hold the stages of one pipeline.
Groups pipeline_groups(const Layout& layout);

}  // namespace ulmus::parallel
