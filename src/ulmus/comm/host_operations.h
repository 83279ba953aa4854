#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ulmus/comm/operations.h"

namespace ulmus::comm {

/// Everybody has come: in log2 W rounds, each rank tells the one 2^round further and hears from the
/// one 2^round before.
class Barrier final : public Operation {
 public:
  explicit Barrier(Communicator& group) : Operation(group, OperationKind::kBarrier) { announce(2); }
  ~Barrier() override = default;
  void start();

 private:
  bool advance() override;
  void list_awaited(std::vector<int>& members) const override;
  void abandon() noexcept override;
  void start_round();
  int before() const { return (rank() - distance_ + size()) % size(); }

  int distance_ = 1;
  Transfer send_;
  Transfer receive_;
};

/// Along a binomial tree: who has the bytes passes them on.
class Broadcast final : public Operation {
 public:
  explicit Broadcast(Communicator& group);
  ~Broadcast() override = default;
  void start(std::span<std::byte> bytes, int root);

 private:
  bool advance() override;
  void list_awaited(std::vector<int>& members) const override;
  void abandon() noexcept override;
  int member(int distance) const { return (root_ + distance) % size(); }
  void pass_on();

  int root_ = 0;
  int distance_ = 0;  // of this rank from the root
  int reach_ = 0;     // its children are nearer to it than this
  bool passed_on_ = false;
  std::span<std::byte> bytes_;
  Transfer receive_;
  std::vector<Transfer> sends_;  // to the children at distance 1, 2, 4, ...
};

/// Equal numbers of bytes of every rank on every rank.
class AllGatherBytes final : public Operation {
 public:
  AllGatherBytes(Communicator& group, OperationKind kind);
  ~AllGatherBytes() override = default;
  void start(std::span<std::byte> all, std::span<const std::byte> mine);

 private:
  bool advance() override { return exchange_.advance(); }
  void list_awaited(std::vector<int>& members) const override { exchange_.add_awaited(members); }
  void abandon() noexcept override { exchange_.abandon(); }

  PairwiseExchange exchange_{*this};
};

/// What the waiting calls of a communicator run on, built once.
struct HostOperations {
  explicit HostOperations(Communicator& group);
  // Before the operations, which may still be under way when this goes.
  std::vector<std::byte> scratch;  // all ranks' values; grows to the largest call
  std::vector<const std::byte*> sources;
  Barrier barrier;
  Broadcast broadcast;
  AllGatherBytes gather;
  AllGatherBytes reduce;
};

}  // namespace ulmus::comm
