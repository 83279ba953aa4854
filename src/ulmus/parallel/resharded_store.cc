#include "ulmus/parallel/resharded_store.h"

#include <algorithm>

#include "ulmus/ops/elementwise.h"

namespace ulmus::parallel {

namespace {

constexpr int kNoUnit = -1;

}  // namespace

ReshardedStore::ReshardedStore(nn::ParameterSet& parameters, const Options& options,
                               const FamilyGroups& groups, comm::World& world,
                               const SlotMemory& memory, Arena& values, Arena& gradients,
                               Arena& exchange, const ExecContext& ctx)
    : options_(options),
      world_(world),
      memory_(memory),
      ctx_(ctx),
      units_(parameters.units().size()) {
  const std::vector<Bucket> buckets = make_buckets(parameters);
  std::int64_t staging_bytes = 0;
  for (const Bucket& bucket : buckets) {
    const auto bounds = cut_bucket(bucket, parameters, groups.of(bucket.family).size());
    staging_bytes =
        std::max(staging_bytes, comm::ReduceScatter::staging_bytes(bounds, parameters.dtype()));
  }
  // A reduction under way for each gradient slot and family.
  const std::size_t num_staging = memory.num_gradient_slots() * nn::kNumParameterFamilies;
  std::vector<TensorView> staging;
  staging.reserve(num_staging);
  for (std::size_t i = 0; i < num_staging; ++i)
    staging.push_back(exchange.allocate("gradients.staging", DType::kU8, {staging_bytes}));
  for (const Bucket& bucket : buckets) {
    Unit& unit = units_[static_cast<std::size_t>(bucket.unit)];
    if (unit.end_bucket == 0) unit.first_bucket = sharded_.size();
    unit.end_bucket = sharded_.size() + 1;
    const std::size_t turn = memory.gradient_slot(bucket.unit) * nn::kNumParameterFamilies +
                             static_cast<std::size_t>(bucket.family);
    add_bucket(bucket, parameters, groups.of(bucket.family), values, gradients,
               staging.empty() ? TensorView() : staging[turn]);
  }
  parameters.attach(*this);
}

void ReshardedStore::add_bucket(const Bucket& bucket, const nn::ParameterSet& parameters,
                                comm::Communicator& group, Arena& values, Arena& gradients,
                                TensorView staging) {
  const nn::Parameter& first = parameters.all()[static_cast<std::size_t>(bucket.first)];
  const nn::Parameter& last = parameters.all()[static_cast<std::size_t>(bucket.last)];
  const std::vector<std::int64_t> bounds = cut_bucket(bucket, parameters, group.size());
  const auto rank = static_cast<std::size_t>(group.rank());
  const DType dtype = parameters.dtype();
  const Shape piece = {bounds[rank + 1] - bounds[rank]};
  Sharded sharded;
  sharded.begin = bounds[rank];
  sharded.value = values.allocate(first.name + ".piece", dtype, piece);
  sharded.slot_value = values.span(first.value, last.value);
  ULMUS_CHECK(sharded.slot_value.numel() == bucket.numel, "bucket of ", first.name, ": ",
              sharded.slot_value.numel(), " elements in memory, ", bucket.numel, " expected");
  sharded.gather =
      std::make_unique<comm::AllGather>(group, sharded.slot_value, bounds, ctx_.device);
  if (parameters.has_gradients()) {
    sharded.accumulator = gradients.allocate(first.name + ".piece", dtype, piece);
    sharded.slot_grad = gradients.span(first.grad, last.grad);
    sharded.reduce = std::make_unique<comm::ReduceScatter>(group, sharded.slot_grad, bounds,
                                                           staging, ctx_.device);
  }
  add_shares(bucket, sharded, bounds[rank + 1], parameters);
  sharded_.push_back(std::move(sharded));
}

void ReshardedStore::add_shares(const Bucket& bucket, const Sharded& sharded, std::int64_t end,
                                const nn::ParameterSet& parameters) {
  for (int i = bucket.first; i <= bucket.last; ++i) {
    const nn::Parameter& parameter = parameters.all()[static_cast<std::size_t>(i)];
    const std::int64_t position = bucket.positions[static_cast<std::size_t>(i - bucket.first)];
    const BlockRange local = blocks_in(parameter, position, sharded.begin, end);
    const std::int64_t from =
        local.num_blocks() == 0 ? 0 : position + local.element_begin() - sharded.begin;
    const auto owned = [&](TensorView piece) {
      return piece.rows(from, from + local.num_elements());
    };
    shares_.push_back(
        {.parameter = i,
         .blocks = global_blocks(parameter, local),
         .value = owned(sharded.value),
         .grad = parameters.has_gradients() ? owned(sharded.accumulator) : TensorView()});
  }
}

void ReshardedStore::begin_step(const ExecContext& ctx) {
  for (const Sharded& sharded : sharded_)
    ops::fill({.x = sharded.accumulator, .value = 0.0}, ctx);
}

void ReshardedStore::start_gather(int unit) {
  Unit& state = units_[static_cast<std::size_t>(unit)];
  if (state.weights != SlotState::kEmpty) return;
  for (std::size_t i = state.first_bucket; i < state.end_bucket; ++i) {
    const Sharded& sharded = sharded_[i];
    const TensorView own =
        sharded.slot_value.rows(sharded.begin, sharded.begin + sharded.value.numel());
    ops::copy({.y = own, .x = sharded.value}, ctx_);
    sharded.gather->start();
  }
  state.weights = SlotState::kUnderWay;
}

/// Waits for a unit's weights, and asks for those of the next one behind them.
void ReshardedStore::need_weights(int unit, int next) {
  start_gather(unit);
  Unit& state = units_[static_cast<std::size_t>(unit)];
  for (std::size_t i = state.first_bucket; i < state.end_bucket; ++i)
    sharded_[i].gather->wait();
  state.weights = SlotState::kHere;
  const bool has_next = next > kNoUnit && next < static_cast<int>(units_.size());
  if (options_.prefetch == Prefetch::kNextUnit && has_next) start_gather(next);
}

void ReshardedStore::drop_weights(int unit) {
  units_[static_cast<std::size_t>(unit)].weights = SlotState::kEmpty;
}

void ReshardedStore::before_forward(int unit) {
  // A head that is tied to the embedding asks for unit 0 again, out of order.
  const bool is_in_order = unit > 0 || !memory_.options().first_alone;
  need_weights(unit, is_in_order ? unit + 1 : kNoUnit);
}

void ReshardedStore::after_forward(int unit) {
  if (options_.reshard == Reshard::kMicroBatch) drop_weights(unit);
  world_.progress();
}

void ReshardedStore::finish_reduction(int unit) {
  Unit& state = units_[static_cast<std::size_t>(unit)];
  if (!state.reduces) return;
  for (std::size_t i = state.first_bucket; i < state.end_bucket; ++i) {
    const Sharded& sharded = sharded_[i];
    sharded.reduce->wait();
    const TensorView sum =
        sharded.slot_grad.rows(sharded.begin, sharded.begin + sharded.value.numel());
    ops::add({.y = sharded.accumulator, .a = sharded.accumulator, .b = sum}, ctx_);
  }
  state.reduces = false;
}

void ReshardedStore::before_backward(int unit) {
  need_weights(unit, unit - 1);
  for (int other = 0; other < static_cast<int>(units_.size()); ++other) {
    if (memory_.gradient_slot(other) == memory_.gradient_slot(unit)) finish_reduction(other);
  }
  const Unit& state = units_[static_cast<std::size_t>(unit)];
  for (std::size_t i = state.first_bucket; i < state.end_bucket; ++i)
    ops::fill({.x = sharded_[i].slot_grad, .value = 0.0}, ctx_);
}

void ReshardedStore::after_backward(int unit) {
  Unit& state = units_[static_cast<std::size_t>(unit)];
  for (std::size_t i = state.first_bucket; i < state.end_bucket; ++i)
    sharded_[i].reduce->start();
  state.reduces = true;
  if (options_.reshard == Reshard::kMicroBatch || position_ == Position::kLast) drop_weights(unit);
  world_.progress();
}

void ReshardedStore::finish_gradients() {
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit)
    finish_reduction(unit);
}

/// The weights in the slots are old from here on.
void ReshardedStore::publish_weights() {
  for (Unit& unit : units_) {
    ULMUS_CHECK(unit.weights != SlotState::kUnderWay, "weights are asked for and not used");
    unit.weights = SlotState::kEmpty;
  }
}

}  // namespace ulmus::parallel
