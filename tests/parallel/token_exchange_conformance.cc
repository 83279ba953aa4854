#include "tests/parallel/token_exchange_conformance.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ulmus::test {

namespace {

constexpr std::int64_t kWidth = 5;
constexpr std::int64_t kMaxTokens = 40;

/// One rank with one plan of an exchange.
class Rank {
 public:
  Rank(comm::World& world, const MakeExchange& make, const Routes& routes)
      : world_(world),
        routes_(routes),
        exchange_(make(world.all(), *f_.device)),
        plan_(exchange_->allocate_plan(f_.arena, kMaxTokens, routes.num_experts, routes.top_k)),
        n_(routes.num_tokens(world.rank())) {
    std::vector<std::int32_t> ids;
    for (std::int64_t token = 0; token < n_; ++token) {
      for (int k = 0; k < routes_.top_k; ++k)
        ids.push_back(routes_.expert(world_.rank(), token, k));
    }
    const auto valid = std::ranges::count_if(ids, [](std::int32_t id) { return id >= 0; });
    exchange_->plan(plan_, f_.i32({n_, routes_.top_k}, ids), valid / routes_.top_k, f_.ctx);
    rows_in_use_ = f_.read<std::int32_t>(plan_.row_count()).front();
    expert_begin_ = f_.read<std::int32_t>(plan_.expert_begin);
  }

  void check_counts() {
    std::array<std::int64_t, 2> sums = {rows_in_use_, valid_routes(world_.rank())};
    EXPECT_EQ(plan_.booked_rows, rows_in_use_);
    EXPECT_LE(rows_in_use_, plan_.row_capacity);
    world_.all().all_reduce(sums, comm::ReduceOp::kSum);
    EXPECT_EQ(sums[0], sums[1]) << "rows received and routes sent";
  }

  /// Token rows say where they come from.
  void check_order() {
    const TensorView x = f_.floats(DType::kF64, {n_, kWidth}, source_rows(world_.rank()));
    const TensorView grouped = f_.stale(DType::kF64, {plan_.row_capacity, kWidth});
    exchange_->dispatch(grouped, x, plan_, f_.ctx);
    EXPECT_EQ(used(grouped, kWidth), expected_rows());
    const std::vector<double> all = f_.values(grouped);
    for (std::size_t i = static_cast<std::size_t>(rows_in_use_ * kWidth); i < all.size(); ++i)
      ASSERT_EQ(all[i], DeviceFixture::kStale) << "row beyond those in use";
  }

  /// Expert e multiplies by e + 1; weighted by k + 1 the rows come back exact.
  void check_round_trip() {
    const TensorView x = f_.floats(DType::kF64, {n_, kWidth}, source_rows(world_.rank()));
    const TensorView grouped = f_.zeros(DType::kF64, {plan_.row_capacity, kWidth});
    exchange_->dispatch(grouped, x, plan_, f_.ctx);
    std::vector<double> rows = f_.values(grouped);
    for (std::size_t e = 0; e + 1 < expert_begin_.size(); ++e) {
      const double factor = static_cast<double>(first_expert()) + static_cast<double>(e) + 1.0;
      for (auto i = expert_begin_[e] * kWidth; i < expert_begin_[e + 1] * kWidth; ++i)
        rows[static_cast<std::size_t>(i)] *= factor;
    }
    f_.write(grouped, rows);
    std::vector<double> weights;
    for (std::int64_t i = 0; i < n_ * routes_.top_k; ++i)
      weights.push_back(static_cast<double>(i % routes_.top_k) + 1.0);
    const TensorView y = f_.stale(DType::kF64, {n_, kWidth});
    exchange_->combine(y, grouped, f_.floats(DType::kF64, {n_, routes_.top_k}, weights), plan_,
                       f_.ctx);
    std::vector<double> expected = source_rows(world_.rank());
    for (std::int64_t token = 0; token < n_; ++token) {
      double factor = 0.0;
      for (int k = 0; k < routes_.top_k; ++k) {
        const std::int32_t id = routes_.expert(world_.rank(), token, k);
        if (id >= 0) factor += (k + 1.0) * (id + 1.0);
      }
      for (std::int64_t d = 0; d < kWidth; ++d)
        expected[static_cast<std::size_t>(token * kWidth + d)] *= factor;
    }
    EXPECT_EQ(f_.values(y), expected);
  }

  void check_adjoint() {
    const std::vector<double> x = integers(n_ * kWidth, "x");
    const std::vector<double> g = integers(plan_.row_capacity * kWidth, "g");
    const TensorView grouped = f_.zeros(DType::kF64, {plan_.row_capacity, kWidth});
    exchange_->dispatch(grouped, f_.floats(DType::kF64, {n_, kWidth}, x), plan_, f_.ctx);
    const TensorView back = f_.stale(DType::kF64, {n_, kWidth});
    exchange_->combine(back, f_.floats(DType::kF64, {plan_.row_capacity, kWidth}, g), {}, plan_,
                       f_.ctx);
    std::array<double, 2> products = {product(used(grouped, kWidth), g),
                                      product(f_.values(back), x)};
    world_.all().all_reduce(products, comm::ReduceOp::kSum);
    EXPECT_EQ(products[0], products[1]);
  }

  void check_scalars() {
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < n_ * routes_.top_k; ++i)
      numbers.push_back(static_cast<double>(world_.rank() * 10000 + i));
    const TensorView of_route = f_.floats(DType::kF64, {n_, routes_.top_k}, numbers);
    const TensorView of_row = f_.stale(DType::kF64, {plan_.row_capacity});
    exchange_->dispatch_scalars(of_row, of_route, plan_, f_.ctx);
    EXPECT_EQ(used(of_row, 1), expected_scalars());
    const TensorView back = f_.stale(DType::kF64, {n_, routes_.top_k});
    exchange_->collect_scalars(back, of_row, plan_, f_.ctx);
    for (std::int64_t i = 0; i < n_ * routes_.top_k; ++i) {
      const bool has_row = routes_.expert(world_.rank(), i / routes_.top_k,
                                          static_cast<int>(i % routes_.top_k)) >= 0;
      if (!has_row) numbers[static_cast<std::size_t>(i)] = 0.0;
    }
    EXPECT_EQ(f_.values(back), numbers);
  }

 private:
  std::int32_t experts_here() const { return routes_.num_experts / world_.size(); }
  std::int32_t first_expert() const { return experts_here() * world_.rank(); }

  std::int64_t valid_routes(int rank) const {
    std::int64_t count = 0;
    for (std::int64_t token = 0; token < routes_.num_tokens(rank); ++token) {
      for (int k = 0; k < routes_.top_k; ++k)
        count += routes_.expert(rank, token, k) >= 0 ? 1 : 0;
    }
    return count;
  }

  /// Calls visit(rank, token, k) for every route to an expert of this rank, in the order of rows.
  template <class Visit>
  void for_rows(const Visit& visit) const {
    for (std::int32_t e = first_expert(); e < first_expert() + experts_here(); ++e) {
      for (int rank = 0; rank < world_.size(); ++rank) {
        for (std::int64_t token = 0; token < routes_.num_tokens(rank); ++token) {
          for (int k = 0; k < routes_.top_k; ++k) {
            if (routes_.expert(rank, token, k) == e) visit(rank, token, k);
          }
        }
      }
    }
  }

  std::vector<double> source_rows(int rank) const {
    std::vector<double> rows;
    for (std::int64_t i = 0; i < routes_.num_tokens(rank) * kWidth; ++i)
      rows.push_back(static_cast<double>(rank * 1000 + i + 1));
    return rows;
  }
  std::vector<double> expected_rows() const {
    std::vector<double> rows;
    for_rows([&](int rank, std::int64_t token, int) {
      for (std::int64_t d = 0; d < kWidth; ++d)
        rows.push_back(static_cast<double>(rank * 1000 + token * kWidth + d + 1));
    });
    return rows;
  }
  std::vector<double> expected_scalars() const {
    std::vector<double> numbers;
    for_rows([&](int rank, std::int64_t token, int k) {
      numbers.push_back(static_cast<double>(rank * 10000 + token * routes_.top_k + k));
    });
    return numbers;
  }
  /// The rows in use.
  std::vector<double> used(ConstTensorView view, std::int64_t width) {
    std::vector<double> all = f_.values(view);
    all.resize(static_cast<std::size_t>(rows_in_use_ * width));
    return all;
  }
  std::vector<double> integers(std::int64_t count, const std::string& stream) const {
    const auto drawn = DeviceFixture::integers(count, 7, stream + std::to_string(world_.rank()));
    return {drawn.begin(), drawn.end()};
  }
  static double product(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      sum += a[i] * b[i];
    return sum;
  }

  DeviceFixture f_;
  comm::World& world_;
  const Routes& routes_;
  std::unique_ptr<nn::TokenExchange> exchange_;
  nn::ExchangePlan plan_;
  std::int64_t n_;
  std::int64_t rows_in_use_ = 0;
  std::vector<std::int32_t> expert_begin_;
};

}  // namespace

std::vector<Routes> ways_of_routing(int ranks) {
  const auto even = [](int) { return std::int64_t{12}; };
  const int experts = 4 * ranks;
  const auto spread = [experts](int rank, std::int64_t token, int k) {
    return static_cast<std::int32_t>((rank * 7 + token * 5 + k * 3) % experts);
  };
  return {
      {"spread", experts, 2, even, spread},
      {"half of the tokens to one expert", experts, 2, even,
       [experts](int rank, std::int64_t token, int k) {
         const std::int64_t other = (rank + token + k) % (experts - 1);
         return static_cast<std::int32_t>(k == 0 && token % 2 == 0 ? experts - 1 : other);
       }},
      {"all to the first rank", experts, 3, even,
       [](int, std::int64_t token, int k) { return static_cast<std::int32_t>((token + k) % 4); }},
      {"ranks with different numbers of tokens, one with none", experts, 2,
       [](int rank) { return std::int64_t{7} * (rank % 3); }, spread},
      {"padding", experts, 2, even,
       [spread](int rank, std::int64_t token, int k) {
         return token % 3 == rank % 3 ? -1 : spread(rank, token, k);
       }},
      {"nothing at all", experts, 2, [](int) { return std::int64_t{0}; }, spread},
      {"one expert on each rank", ranks, 1, [](int rank) { return std::int64_t{rank} + 1; },
       [ranks](int rank, std::int64_t token, int) {
         return static_cast<std::int32_t>((rank + token) % ranks);
       }},
      {"the largest micro-batch, every expert", ranks, ranks, [](int) { return kMaxTokens; },
       [ranks](int, std::int64_t token, int k) {
         return static_cast<std::int32_t>((token + k) % ranks);
       }},
  };
}

void check_token_exchange(comm::World& world, const MakeExchange& make) {
  for (const Routes& routes : ways_of_routing(world.size())) {
    SCOPED_TRACE(routes.name);
    Rank rank(world, make, routes);
    rank.check_counts();
    rank.check_order();
    rank.check_round_trip();
    rank.check_adjoint();
    rank.check_scalars();
  }
}

}  // namespace ulmus::test
