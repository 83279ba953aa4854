#include "ulmus/parallel/resharded_store.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::parallel {
namespace {

using Position = ParameterStore::Position;

constexpr int kRanks = 2;
constexpr int kUnits = 3;
constexpr std::int64_t kElements = std::int64_t{2} * 4096;   // two blocks: each rank owns one
constexpr std::int64_t kMoveBytes = kElements / kRanks * 4;  ///< sent by a gather or a reduction
constexpr std::int64_t kCapacity = std::int64_t{1} << 20U;

/// A model of three units with one weight each, on one rank of two. Weight i of unit u is
/// `weight_of(u, i)`, plus 1 for each update.
class Model {
 public:
  Model(comm::World& world, const ReshardedStore::Options& options,
        const SlotMemory::Options& slots)
      : world_(world),
        dense_(world.make_group("dense", {{0, 1}})),
        expert_(world.make_group("expert_replica", {{0, 1}})),
        memory_(slots, std::vector<std::int64_t>(kUnits, kElements * 4),
                nn::ParameterSet::Gradients::kAllocate, values_, gradients_),
        parameters_(memory_, nn::ParameterSet::Gradients::kAllocate, DType::kF32) {
    for (int unit = 0; unit < kUnits; ++unit) {
      parameters_.begin_unit(concat("unit", unit));
      parameters_.add(concat("weight", unit), {kElements}, nn::ParameterFamily::kDense, {});
    }
    store_ = std::make_unique<ReshardedStore>(
        parameters_, options, FamilyGroups{.dense = dense_.get(), .expert = expert_.get()}, world,
        memory_, values_, gradients_, exchange_, f_.ctx);
    for (const OwnedShare& share : store_->shares()) {
      std::vector<double> own;
      for (std::int64_t i = share.blocks.element_begin(); i < share.blocks.element_end(); ++i) {
        own.push_back(weight_of(share.parameter, i));
      }
      f_.write(share.value, own);
    }
    store_->publish_weights();
    dense_->reset_traffic();
  }

  ReshardedStore& store() { return *store_; }
  const nn::ParameterSet& parameters() const { return parameters_; }
  const Arena& values() const { return values_; }
  void begin_step() { store_->begin_step(f_.ctx); }

  /// Gathers and reductions that this rank has taken part in since the last call.
  std::int64_t moves() {
    const comm::Traffic traffic = dense_->traffic();
    EXPECT_EQ(traffic.sent_bytes, traffic.operations * kMoveBytes);
    dense_->reset_traffic();
    return traffic.operations;
  }

  void forward(int unit) {
    parameters_.before_forward(unit);
    expect_weights(unit);
    parameters_.after_forward(unit);
  }
  /// The gradient of every weight is the rank's number + 1.
  void backward(int unit) {
    parameters_.before_backward(unit);
    expect_weights(unit);
    const TensorView grad = parameters_.all()[static_cast<std::size_t>(unit)].grad;
    EXPECT_EQ(f_.values(grad), std::vector<double>(kElements, 0.0));
    f_.write(grad, std::vector<double>(kElements, world_.rank() + 1.0));
    parameters_.after_backward(unit);
  }
  void micro_batch(Position position) {
    store_->begin_micro_batch(position);
    for (int unit = 0; unit < kUnits; ++unit) {
      forward(unit);
    }
    for (int unit = kUnits; unit-- > 0;) {
      backward(unit);
    }
  }
  /// Checks the sums, and adds 1 to every weight.
  void update(int num_micro_batches) {
    store_->finish_gradients();
    for (const OwnedShare& share : store_->shares()) {
      EXPECT_EQ(f_.values(share.grad),
                std::vector<double>(kElements / kRanks, 3.0 * num_micro_batches));
      std::vector<double> values = f_.values(share.value);
      for (double& value : values) {
        value += 1.0;
      }
      f_.write(share.value, values);
    }
    ++num_updates_;
    store_->publish_weights();
  }

 private:
  double weight_of(int unit, std::int64_t i) const {
    return unit * 100000.0 + static_cast<double>(i) + num_updates_;
  }
  void expect_weights(int unit) {
    std::vector<double> expected;
    expected.reserve(kElements);
    for (std::int64_t i = 0; i < kElements; ++i) {
      expected.push_back(weight_of(unit, i));
    }
    EXPECT_TRUE(f_.values(parameters_.all()[static_cast<std::size_t>(unit)].value) == expected)
        << "unit " << unit << " after update " << num_updates_;
  }

  test::DeviceFixture f_;
  comm::World& world_;
  std::unique_ptr<comm::Communicator> dense_;
  std::unique_ptr<comm::Communicator> expert_;
  Arena values_{*f_.device, MemoryClass::kParameters, kCapacity};
  Arena gradients_{*f_.device, MemoryClass::kGradients, kCapacity};
  Arena exchange_{*f_.device, MemoryClass::kExchange, kCapacity};
  SlotMemory memory_;
  nn::ParameterSet parameters_;
  std::unique_ptr<ReshardedStore> store_;
  int num_updates_ = 0;
};

template <class Body>
void on_ranks(const ReshardedStore::Options& options, const SlotMemory::Options& slots,
              const Body& body) {
  comm::run_thread_ranks(kRanks, {}, [&](comm::World& world) {
    Model model(world, options, slots);
    body(model);
  });
}

constexpr SlotMemory::Options kOneSlot{};
constexpr SlotMemory::Options kTwoSlots{.weight_slots = 2, .gradient_slots = 2};
constexpr SlotMemory::Options kASlotEach{.weight_slots = kUnits};

TEST(ReshardedStoreTest, EveryMicroBatchGathersTwice) {
  for (const Prefetch prefetch : {Prefetch::kNone, Prefetch::kNextUnit}) {
    const auto& slots = prefetch == Prefetch::kNone ? kOneSlot : kTwoSlots;
    on_ranks({.reshard = Reshard::kMicroBatch, .prefetch = prefetch}, slots, [](Model& model) {
      for (int step = 0; step < 2; ++step) {
        model.begin_step();
        model.micro_batch(Position::kNotLast);
        EXPECT_EQ(model.moves(), 2 * kUnits + kUnits) << "before forward and backward; reductions";
        model.micro_batch(Position::kLast);
        EXPECT_EQ(model.moves(), 2 * kUnits + kUnits);
        model.update(2);
        EXPECT_EQ(model.moves(), 0);
      }
    });
  }
}

TEST(ReshardedStoreTest, WeightsThatStayAreGatheredOnceAStep) {
  on_ranks({.reshard = Reshard::kStep}, kASlotEach, [](Model& model) {
    for (int step = 0; step < 2; ++step) {
      model.begin_step();
      model.micro_batch(Position::kNotLast);
      EXPECT_EQ(model.moves(), kUnits + kUnits) << "at the first use; reductions";
      model.micro_batch(Position::kNotLast);
      EXPECT_EQ(model.moves(), kUnits) << "reductions only";
      model.micro_batch(Position::kLast);
      EXPECT_EQ(model.moves(), kUnits);
      model.update(3);
    }
  });
}

TEST(ReshardedStoreTest, WithoutPrefetchAUnitIsAskedForWhenItIsUsed) {
  on_ranks({.reshard = Reshard::kMicroBatch}, kOneSlot, [](Model& model) {
    model.begin_step();
    model.parameters().before_forward(0);
    EXPECT_EQ(model.moves(), 1);
    model.parameters().after_forward(0);
    EXPECT_EQ(model.moves(), 0);
  });
}

TEST(ReshardedStoreTest, PrefetchAsksForTheNextUnitBeforeOneIsUsed) {
  on_ranks({.reshard = Reshard::kMicroBatch, .prefetch = Prefetch::kNextUnit}, kTwoSlots,
           [](Model& model) {
             model.begin_step();
             model.store().begin_micro_batch(Position::kLast);
             const std::vector<std::int64_t> forward = {2, 1, 0};
             for (int unit = 0; unit < kUnits; ++unit) {
               model.parameters().before_forward(unit);
               EXPECT_EQ(model.moves(), forward[static_cast<std::size_t>(unit)]) << unit;
               model.parameters().after_forward(unit);
             }
             for (int unit = kUnits; unit-- > 0;) {
               model.parameters().before_backward(unit);
               const std::int64_t backward = unit == kUnits - 1 ? 2 : unit == 0 ? 0 : 1;
               EXPECT_EQ(model.moves(), backward) << unit;
               model.parameters().after_backward(unit);
               EXPECT_EQ(model.moves(), 1) << "the reduction";
             }
             model.store().finish_gradients();
           });
}

TEST(ReshardedStoreTest, WholeWeightsTakeOnlyTheirSlots) {
  for (const SlotMemory::Options& slots : {kOneSlot, kTwoSlots, kASlotEach}) {
    on_ranks({}, slots, [&](Model& model) {
      const std::vector<nn::Parameter>& all = model.parameters().all();
      for (std::size_t one = 0; one < all.size(); ++one) {
        for (std::size_t other = one + 1; other < all.size(); ++other) {
          const bool share_slot = (other - one) % static_cast<std::size_t>(slots.weight_slots) == 0;
          EXPECT_EQ(overlaps(all[one].value, all[other].value), share_slot);
        }
      }
      const std::int64_t pieces = kUnits * kElements / kRanks * 4;
      EXPECT_EQ(model.values().used_bytes(), slots.weight_slots * kElements * 4 + pieces);
    });
  }
}

}  // namespace
}  // namespace ulmus::parallel
