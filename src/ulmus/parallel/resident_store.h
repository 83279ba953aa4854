#pragma once

#include "ulmus/comm/operations.h"
#include "ulmus/device/arena.h"
#include "ulmus/parallel/parameter_buckets.h"
#include "ulmus/parallel/parameter_store.h"

namespace ulmus::parallel {

/// Weights that never leave their rank (design, section 6). Every rank holds all weights of its
/// families and gradients for them, in the dtype of the parameters. Gradients add up over the
/// micro-batches; during the last one a unit's buckets are reduce-scattered as soon as its backward
/// is done. A rank owns a piece of every bucket, the optimizer updates it in place, and an
/// all-gather brings the pieces of the others, under way until the unit is used next.
class ResidentStore final : public ParameterStore {
 public:
  /// Attaches itself to `parameters`, whose tensors lie in the two arenas. Memory that other ranks
  /// send to comes from `exchange`. All arguments outlive this.
  ResidentStore(nn::ParameterSet& parameters, const FamilyGroups& groups, comm::World& world,
                const Arena& values, const Arena& gradients, Arena& exchange, Device& device);

  const std::vector<OwnedShare>& shares() const override { return shares_; }
  void begin_step(const ExecContext& ctx) override;
  void begin_micro_batch(Position position) override { position_ = position; }
  void finish_gradients() override;
  void publish_weights() override;
  void finish_weights() override;

  void before_forward(int unit) override { wait_for_weights(unit); }
  void after_forward(int unit) override;
  void before_backward(int unit) override { wait_for_weights(unit); }
  void after_backward(int unit) override;

 private:
  /// A bucket with its collectives.
  struct Moving {
    TensorView gradient;  ///< [numel], gaps included
    std::unique_ptr<comm::ReduceScatter> reduce;
    std::unique_ptr<comm::AllGather> gather;
  };
  void add_shares(const Bucket& bucket, const std::vector<std::int64_t>& bounds, int rank,
                  const nn::ParameterSet& parameters);
  void add_moving(const Bucket& bucket, const std::vector<std::int64_t>& bounds,
                  const nn::ParameterSet& parameters, comm::Communicator& group,
                  const Arena& values, const Arena& gradients, Device& device);
  void wait_for_weights(int unit);
  void start_reduction(std::size_t bucket);

  comm::World& world_;
  std::vector<Bucket> buckets_;
  std::vector<Moving> moving_;  ///< one for each bucket
  std::vector<OwnedShare> shares_;
  std::vector<TensorView> staging_;    ///< reductions use them in turns
  std::vector<std::size_t> in_order_;  ///< buckets whose reduction was started in this step
  Position position_ = Position::kLast;
};

}  // namespace ulmus::parallel
