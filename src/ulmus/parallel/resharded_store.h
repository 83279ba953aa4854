#pragma once

#include <memory>
#include <vector>

#include "ulmus/comm/operations.h"
#include "ulmus/device/arena.h"
#include "ulmus/parallel/parameter_buckets.h"
#include "ulmus/parallel/parameter_store.h"
#include "ulmus/parallel/reshard.h"
#include "ulmus/parallel/slot_memory.h"

namespace ulmus::parallel {

/// Parameters that live in pieces (design, section 6): every rank keeps its piece of every bucket;
/// whole weights exist in slots while a unit is used. A unit's gradients are made in a slot, too,
/// reduce-scattered after every micro-batch, and added to the rank's accumulators. All of it has
/// the dtype of the parameters.
class ReshardedStore final : public ParameterStore {
 public:
  struct Options {
    Reshard reshard = Reshard::kMicroBatch;
    Prefetch prefetch = Prefetch::kNone;
  };
  /// Attaches itself to `parameters`, which lie in `memory`. Pieces come from the arenas of values
  /// and gradients, what other ranks send to from `exchange`. All arguments outlive this.
  ReshardedStore(nn::ParameterSet& parameters, const Options& options, const FamilyGroups& groups,
                 comm::World& world, const SlotMemory& memory, Arena& values, Arena& gradients,
                 Arena& exchange, const ExecContext& ctx);

  const std::vector<OwnedShare>& shares() const override { return shares_; }
  void begin_step(const ExecContext& ctx) override;
  void begin_micro_batch(Position position) override { position_ = position; }
  void finish_gradients() override;
  void publish_weights() override;
  void finish_weights() override {}

  void before_forward(int unit) override;
  void after_forward(int unit) override;
  void before_backward(int unit) override;
  void after_backward(int unit) override;

 private:
  /// A bucket with its piece and its collectives.
  struct Sharded {
    TensorView value;        ///< [piece]: this rank's weights
    TensorView accumulator;  ///< [piece]: their gradients, summed over ranks and micro-batches
    TensorView slot_value;   ///< [numel], in the unit's slot
    TensorView slot_grad;    ///< [numel], in the unit's gradient slot
    std::int64_t begin = 0;  ///< of the piece in the bucket
    std::unique_ptr<comm::AllGather> gather;
    std::unique_ptr<comm::ReduceScatter> reduce;
  };
  enum class SlotState : std::uint8_t { kEmpty, kUnderWay, kHere };
  struct Unit {
    std::size_t first_bucket = 0;
    std::size_t end_bucket = 0;
    SlotState weights = SlotState::kEmpty;
    bool reduces = false;  ///< its reduction is under way
  };
  void add_bucket(const Bucket& bucket, const nn::ParameterSet& parameters,
                  comm::Communicator& group, Arena& values, Arena& gradients, TensorView staging);
  void add_shares(const Bucket& bucket, const Sharded& sharded, std::int64_t end,
                  const nn::ParameterSet& parameters);
  void start_gather(int unit);
  void need_weights(int unit, int next);
  void drop_weights(int unit);
  void finish_reduction(int unit);

  Options options_;
  comm::World& world_;
  const SlotMemory& memory_;
  ExecContext ctx_;
  std::vector<Sharded> sharded_;
  std::vector<Unit> units_;
  std::vector<OwnedShare> shares_;
  Position position_ = Position::kLast;
};

}  // namespace ulmus::parallel
