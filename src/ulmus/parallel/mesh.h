#pragma once

#include <string>
#include <vector>

namespace ulmus::parallel {

/// How many ranks share what. Words, not letters: D, P and G are widths and heads elsewhere.
struct Layout {
  int ranks = 1;     ///< W
  int pipeline = 1;  ///< stages of the model
  int context = 1;   ///< ranks that share a sequence
  int expert = 1;    ///< ranks that share the experts

  /// Ranks of a pipeline stage.
  int stage_ranks() const { return ranks / pipeline; }
  /// Ranks of a stage that take different sequences.
  int data() const { return stage_ranks() / context; }
  /// Copies of each expert in a stage.
  int expert_replicas() const { return stage_ranks() / expert; }
  /// InputError naming the keys when the numbers do not multiply up.
  void validate() const;
  /// "8 ranks: data 4, pipeline 2, expert 2 x 2" (ranks that share the experts x copies); "1 rank".
  std::string text() const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Where a rank stands in the two views of its stage, both of which number the same ranks: ranks of
/// a sequence are neighbours, and so are ranks that share experts.
///
///   rank = (stage * data()            + data)    * context + context
///        = (stage * expert_replicas() + replica) * expert  + expert
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
