#include "ulmus/parallel/resident_store.h"

#include <algorithm>

#include "ulmus/ops/elementwise.h"

namespace ulmus::parallel {

namespace {

/// Reductions under way at once: each has a staging buffer.
constexpr std::size_t kReductionsUnderWay = 3;

}  // namespace

ResidentStore::ResidentStore(nn::ParameterSet& parameters, const FamilyGroups& groups,
                             comm::World& world, const Arena& values, const Arena& gradients,
                             Arena& exchange, Device& device)
    : world_(world), buckets_(make_buckets(parameters)) {
  std::vector<std::vector<std::int64_t>> bounds;
  std::int64_t staging_bytes = 0;
  for (const Bucket& bucket : buckets_) {
    const comm::Communicator& group = groups.of(bucket.family);
    bounds.push_back(cut_bucket(bucket, parameters, group.size()));
    add_shares(bucket, bounds.back(), group.rank(), parameters);
    staging_bytes = std::max(staging_bytes,
                             comm::ReduceScatter::staging_bytes(bounds.back(), parameters.dtype()));
  }
  if (parameters.has_gradients()) {
    for (std::size_t i = 0; i < kReductionsUnderWay; ++i) {
      staging_.push_back(exchange.allocate("gradients.staging", DType::kU8, {staging_bytes}));
    }
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    add_moving(buckets_[i], bounds[i], parameters, groups.of(buckets_[i].family), values, gradients,
               device);
  }
  in_order_.reserve(buckets_.size());
  parameters.attach(*this);
}

void ResidentStore::add_shares(const Bucket& bucket, const std::vector<std::int64_t>& bounds,
                               int rank, const nn::ParameterSet& parameters) {
  const auto at = static_cast<std::size_t>(rank);
  for (int i = bucket.first; i <= bucket.last; ++i) {
    const nn::Parameter& parameter = parameters.all()[static_cast<std::size_t>(i)];
    const std::int64_t numel = parameter.value.numel();
    const BlockRange local =
        blocks_in(parameter, bucket.positions[static_cast<std::size_t>(i - bucket.first)],
                  bounds[at], bounds[at + 1]);
    const auto owned = [&](TensorView whole) {
      return whole.reshape({numel}).rows(local.element_begin(), local.element_end());
    };
    shares_.push_back({.parameter = i,
                       .blocks = global_blocks(parameter, local),
                       .value = owned(parameter.value),
                       .grad = parameters.has_gradients() ? owned(parameter.grad) : TensorView()});
  }
}

void ResidentStore::add_moving(const Bucket& bucket, const std::vector<std::int64_t>& bounds,
                               const nn::ParameterSet& parameters, comm::Communicator& group,
                               const Arena& values, const Arena& gradients, Device& device) {
  const nn::Parameter& first = parameters.all()[static_cast<std::size_t>(bucket.first)];
  const nn::Parameter& last = parameters.all()[static_cast<std::size_t>(bucket.last)];
  const TensorView value = values.span(first.value, last.value);
  ULMUS_CHECK(value.numel() == bucket.numel, "bucket of ", first.name, ": ", value.numel(),
              " elements in memory, ", bucket.numel, " expected: something lies in between");
  Moving moving;
  moving.gather = std::make_unique<comm::AllGather>(group, value, bounds, device);
  if (parameters.has_gradients()) {
    moving.gradient = gradients.span(first.grad, last.grad);
    const TensorView staging = staging_[moving_.size() % staging_.size()];
    moving.reduce =
        std::make_unique<comm::ReduceScatter>(group, moving.gradient, bounds, staging, device);
  }
  moving_.push_back(std::move(moving));
}

void ResidentStore::begin_step(const ExecContext& ctx) {
  in_order_.clear();
  for (const Moving& moving : moving_)
    ops::fill({.x = moving.gradient, .value = 0.0}, ctx);
}

void ResidentStore::after_forward(int /*unit*/) { world_.progress(); }

/// The staging buffer is free once the reduction that used it before is done: the one
/// kReductionsUnderWay buckets away, which the order of backward reaches first.
void ResidentStore::start_reduction(std::size_t bucket) {
  for (const std::size_t earlier : in_order_) {
    const bool shares_staging = earlier % staging_.size() == bucket % staging_.size();
    if (shares_staging) moving_[earlier].reduce->wait();
  }
  moving_[bucket].reduce->start();
  in_order_.push_back(bucket);
}

void ResidentStore::after_backward(int unit) {
  if (position_ == Position::kLast) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i].unit == unit) start_reduction(i);
    }
  }
  world_.progress();
}

void ResidentStore::finish_gradients() {
  ULMUS_CHECK(in_order_.size() == buckets_.size(), in_order_.size(), " of ", buckets_.size(),
              " buckets were reduced");
  for (const std::size_t bucket : in_order_)
    moving_[bucket].reduce->wait();
}

void ResidentStore::publish_weights() {
  for (const Moving& moving : moving_)
    moving.gather->start();
  world_.progress();
}

void ResidentStore::wait_for_weights(int unit) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].unit == unit) moving_[i].gather->wait();
  }
  world_.progress();
}

void ResidentStore::finish_weights() {
  for (const Moving& moving : moving_)
    moving.gather->wait();
}

}  // namespace ulmus::parallel
