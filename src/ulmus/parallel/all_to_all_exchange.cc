#include "ulmus/parallel/all_to_all_exchange.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "ulmus/ops/move_segments.h"
#include "ulmus/ops/route_order.h"
#include "ulmus/ops/route_rows.h"

namespace ulmus::parallel {

namespace {

constexpr std::int64_t kSegmentFields = 3;  // out_begin, in_begin, rows

/// A matrix with the row length of `like` and `rows` rows.
TensorView take_rows(ScratchScope& scratch, ConstTensorView like, std::int64_t rows) {
  return scratch.take(like.dtype(), {rows, like.dim(1)});
}

/// Books a transfer and the time until this object's end.
class TransferBooking {
 public:
  TransferBooking(std::int64_t bytes, const ExecContext& ctx)
      : ctx_(ctx), begin_(TraceEvent::Clock::now()) {
    ctx_.meter.book(AllToAllExchange::kTransfer, 0.0, static_cast<double>(bytes));
  }
  ~TransferBooking() {
    if (ctx_.is_meta()) return;
    ctx_.meter.add_time(AllToAllExchange::kTransfer, begin_, TraceEvent::Clock::now());
  }
  TransferBooking(const TransferBooking&) = delete;
  TransferBooking& operator=(const TransferBooking&) = delete;

 private:
  const ExecContext& ctx_;
  TraceEvent::Clock::time_point begin_;
};

/// Bounds of blocks of equal size: what a device that does not route books.
void spread(std::vector<std::int64_t>& bounds, std::int64_t rows) {
  const auto blocks = static_cast<std::int64_t>(bounds.size()) - 1;
  for (std::int64_t block = 0; block <= blocks; ++block)
    bounds[static_cast<std::size_t>(block)] = rows * block / blocks;
}

}  // namespace

AllToAllExchange::AllToAllExchange(comm::Communicator& group, Device& device)
    : group_(group), device_(device), all_to_all_(group, device) {}

std::int64_t AllToAllExchange::row_capacity(std::int64_t num_tokens, int num_experts,
                                            int top_k) const {
  const int here = num_experts / group_.size();
  return group_.size() * num_tokens * std::min(top_k, here);
}

nn::ExchangePlan AllToAllExchange::allocate_plan(Arena& arena, std::int64_t num_tokens,
                                                 int num_experts, int top_k) {
  const int size = group_.size();
  ULMUS_CHECK(num_experts % size == 0, num_experts, " experts on ", size, " ranks");
  const std::int64_t here = num_experts / size;
  const auto ranks = static_cast<std::size_t>(size);
  const auto experts = static_cast<std::size_t>(num_experts);
  Call call;
  call.route_begin = arena.allocate("plan.route_begin", DType::kI32, {num_experts + 1});
  call.to_experts = arena.allocate("plan.to_experts", DType::kI64, {num_experts, kSegmentFields});
  call.to_sources = arena.allocate("plan.to_sources", DType::kI64, {num_experts, kSegmentFields});
  call.sent.assign(ranks + 1, 0);
  call.received.assign(ranks + 1, 0);
  calls_.push_back(std::move(call));
  route_begin_.resize(experts + 1);
  sent_counts_.resize(experts);
  received_counts_.resize(experts);
  expert_begin_.resize(static_cast<std::size_t>(here) + 1);
  to_experts_.resize(experts * kSegmentFields);
  to_sources_.resize(experts * kSegmentFields);
  count_bounds_.resize(ranks + 1);
  std::iota(count_bounds_.begin(), count_bounds_.end(), std::int64_t{0});
  return {.expert_begin = arena.allocate("plan.expert_begin", DType::kI32, {here + 1}),
          .row_of_route = arena.allocate("plan.row_of_route", DType::kI32, {num_tokens, top_k}),
          .route_of_row = arena.allocate("plan.route_of_row", DType::kI32, {num_tokens * top_k}),
          .row_capacity = row_capacity(num_tokens, num_experts, top_k),
          .call = static_cast<int>(calls_.size()) - 1};
}

/// Fills received_counts_ from every peer's sent_counts_.
void AllToAllExchange::exchange_counts(const Call& call, const ExecContext& ctx) {
  const TransferBooking booking(static_cast<std::int64_t>(sent_counts_.size()) * 4, ctx);
  device_.read_to_host(std::span(route_begin_), ConstTensorView(call.route_begin));
  for (std::size_t e = 0; e < sent_counts_.size(); ++e)
    sent_counts_[e] = route_begin_[e + 1] - route_begin_[e];
  const std::int64_t here = static_cast<std::int64_t>(expert_begin_.size()) - 1;
  const Shape shape = {group_.size(), here};
  all_to_all_.start({received_counts_.data(), DType::kI32, shape}, count_bounds_,
                    ConstTensorView(sent_counts_.data(), DType::kI32, shape), count_bounds_);
  all_to_all_.wait();
  if (ctx.is_meta()) std::fill(received_counts_.begin(), received_counts_.end(), 0);
}

/// From the counts: bounds of the blocks, rows of each expert, and the segments between the two
/// orders.
void AllToAllExchange::place_rows(Call& call, const nn::ExchangePlan& plan) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const std::size_t here = expert_begin_.size() - 1;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    call.sent[rank + 1] = route_begin_[(rank + 1) * here];
    const auto from = received_counts_.begin() + static_cast<std::ptrdiff_t>(rank * here);
    call.received[rank + 1] =
        std::accumulate(from, from + static_cast<std::ptrdiff_t>(here), call.received[rank]);
  }
  ULMUS_CHECK(call.received_rows() <= plan.row_capacity, call.received_rows(), " rows for ",
              plan.row_capacity, " places");
  std::int64_t out = 0;
  std::size_t segment = 0;
  for (std::size_t expert = 0; expert < here; ++expert) {
    expert_begin_[expert] = static_cast<std::int32_t>(out);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto* counts = &received_counts_[rank * here];
      const std::int64_t in = std::accumulate(counts, counts + expert, call.received[rank]);
      const std::int64_t rows = counts[expert];
      std::int64_t* forth = &to_experts_[segment];
      std::int64_t* back = &to_sources_[segment];
      forth[0] = back[1] = out;
      forth[1] = back[0] = in;
      forth[2] = back[2] = rows;
      segment += kSegmentFields;
      out += rows;
    }
  }
  expert_begin_[here] = static_cast<std::int32_t>(out);
  device_.copy_to_device(plan.expert_begin, std::span<const std::int32_t>(expert_begin_));
  device_.copy_to_device(call.to_experts, std::span<const std::int64_t>(to_experts_));
  device_.copy_to_device(call.to_sources, std::span<const std::int64_t>(to_sources_));
}

void AllToAllExchange::plan(nn::ExchangePlan& plan, ConstTensorView expert_ids,
                            std::int64_t valid_tokens, const ExecContext& ctx) {
  Call& call = call_of(plan);
  const std::int64_t n = expert_ids.dim(0);
  const std::int64_t top_k = expert_ids.dim(1);
  ops::route_order({.expert_begin = call.route_begin,
                    .row_of_route = plan.row_of_route.rows(0, n),
                    .route_of_row = plan.route_of_row.rows(0, n * top_k),
                    .ids = expert_ids},
                   ctx);
  exchange_counts(call, ctx);
  place_rows(call, plan);
  if (ctx.is_meta()) {
    spread(call.sent, valid_tokens * top_k);
    spread(call.received, valid_tokens * top_k);
  }
  plan.booked_rows = call.received_rows();
}

void AllToAllExchange::transfer(TensorView out, const std::vector<std::int64_t>& out_begin,
                                ConstTensorView in, const std::vector<std::int64_t>& in_begin,
                                const ExecContext& ctx) {
  const TransferBooking booking(in.rows(0, in_begin.back()).size_bytes(), ctx);
  all_to_all_.start(out, out_begin, in, in_begin);
  all_to_all_.wait();
}

void AllToAllExchange::dispatch(TensorView grouped, ConstTensorView rows,
                                const nn::ExchangePlan& plan, const ExecContext& ctx) {
  const Call& call = call_of(plan);
  const int top_k = static_cast<int>(plan.row_of_route.dim(1));
  ScratchScope scratch(ctx.workspace);
  const TensorView sent = take_rows(scratch, rows, plan.route_of_row.dim(0));
  const TensorView received = take_rows(scratch, rows, plan.row_capacity);
  ops::gather_rows(
      {.grouped = sent,
       .rows = rows,
       .route_of_row = plan.route_of_row,
       .row_count = call.route_begin.rows(call.route_begin.dim(0) - 1, call.route_begin.dim(0)),
       .top_k = top_k,
       .booked_rows = call.sent_rows()},
      ctx);
  transfer(received, call.received, sent, call.sent, ctx);
  ops::move_segments({.out = grouped,
                      .in = received,
                      .segments = call.to_experts,
                      .booked_rows = plan.booked_rows},
                     ctx);
}

void AllToAllExchange::combine(TensorView rows, ConstTensorView grouped, ConstTensorView weights,
                               const nn::ExchangePlan& plan, const ExecContext& ctx) {
  const Call& call = call_of(plan);
  ScratchScope scratch(ctx.workspace);
  const TensorView received = take_rows(scratch, grouped, plan.row_capacity);
  const TensorView sent = take_rows(scratch, grouped, plan.route_of_row.dim(0));
  ops::move_segments({.out = received,
                      .in = grouped,
                      .segments = call.to_sources,
                      .booked_rows = plan.booked_rows},
                     ctx);
  transfer(sent, call.sent, received, call.received, ctx);
  ops::combine_rows({.out = rows,
                     .grouped = sent,
                     .weights = weights,
                     .row_of_route = plan.row_of_route.rows(0, rows.dim(0)),
                     .booked_rows = call.sent_rows()},
                    ctx);
}

void AllToAllExchange::dispatch_scalars(TensorView of_row, ConstTensorView of_route,
                                        const nn::ExchangePlan& plan, const ExecContext& ctx) {
  const Call& call = call_of(plan);
  ScratchScope scratch(ctx.workspace);
  const TensorView sent = scratch.take(of_row.dtype(), {plan.route_of_row.dim(0)});
  const TensorView received = scratch.take(of_row.dtype(), {plan.row_capacity});
  ops::gather_scalars(
      {.of_row = sent,
       .of_route = of_route,
       .route_of_row = plan.route_of_row,
       .row_count = call.route_begin.rows(call.route_begin.dim(0) - 1, call.route_begin.dim(0))},
      ctx);
  transfer(received, call.received, sent, call.sent, ctx);
  ops::move_segments(
      {.out = of_row, .in = received, .segments = call.to_experts, .booked_rows = plan.booked_rows},
      ctx);
}

void AllToAllExchange::collect_scalars(TensorView of_route, ConstTensorView of_row,
                                       const nn::ExchangePlan& plan, const ExecContext& ctx) {
  const Call& call = call_of(plan);
  ScratchScope scratch(ctx.workspace);
  const TensorView received = scratch.take(of_row.dtype(), {plan.row_capacity});
  const TensorView sent = scratch.take(of_row.dtype(), {plan.route_of_row.dim(0)});
  ops::move_segments(
      {.out = received, .in = of_row, .segments = call.to_sources, .booked_rows = plan.booked_rows},
      ctx);
  transfer(sent, call.sent, received, call.received, ctx);
  ops::collect_scalars({.of_route = of_route,
                        .of_row = sent,
                        .row_of_route = plan.row_of_route.rows(0, of_route.dim(0))},
                       ctx);
}

}  // namespace ulmus::parallel
