#include "ulmus/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;

struct Case {
  std::string name;
  std::int64_t sequences = 1;
  std::int64_t queries = 1;  ///< of one sequence
  std::int64_t keys = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t width = 4;
  std::int64_t window = 0;
  std::vector<std::int32_t> document_of_key{};  ///< of one sequence; empty: one document
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// The first key of the document in which a query stands.
std::vector<std::int32_t> first_keys(const Case& c) {
  std::vector<std::int32_t> first;
  for (std::int64_t n = 0; n < c.sequences * c.queries; ++n) {
    const auto pos = static_cast<std::size_t>(c.keys - c.queries + n % c.queries);
    std::size_t begin = c.document_of_key.empty() ? 0 : pos;
    while (begin > 0 && c.document_of_key[begin - 1] == c.document_of_key[pos])
      --begin;
    first.push_back(static_cast<std::int32_t>(begin));
  }
  return first;
}

/// Attention as textbooks write it: all scores, a mask, a softmax, a product.
class Textbook {
 public:
  Textbook(const Case& c, std::vector<double> q, std::vector<double> k, std::vector<double> v,
           double scale)
      : c_(c), q_(std::move(q)), k_(std::move(k)), v_(std::move(v)), scale_(scale) {}

  void run(std::vector<double>& out, std::vector<double>& lse) const {
    for (std::int64_t b = 0; b < c_.sequences; ++b) {
      for (std::int64_t i = 0; i < c_.queries; ++i) {
        for (std::int64_t h = 0; h < c_.heads; ++h)
          one(out, lse, b, i, h);
      }
    }
  }

 private:
  bool sees(std::int64_t i, std::int64_t j) const {
    const std::int64_t pos = c_.keys - c_.queries + i;
    if (j > pos || (c_.window > 0 && pos - j >= c_.window)) return false;
    if (c_.document_of_key.empty()) return true;
    return c_.document_of_key[static_cast<std::size_t>(j)] ==
           c_.document_of_key[static_cast<std::size_t>(pos)];
  }
  void one(std::vector<double>& out, std::vector<double>& lse, std::int64_t b, std::int64_t i,
           std::int64_t h) const {
    const std::int64_t g = h * c_.key_heads / c_.heads;
    const auto at = [&](const std::vector<double>& x, std::int64_t row, std::int64_t heads,
                        std::int64_t head, std::int64_t p) {
      return x[static_cast<std::size_t>((row * heads + head) * c_.width + p)];
    };
    double sum = 0.0;
    std::vector<double> weighted(static_cast<std::size_t>(c_.width));
    for (std::int64_t j = 0; j < c_.keys; ++j) {
      double score = 0.0;
      for (std::int64_t p = 0; p < c_.width; ++p) {
        score += at(q_, b * c_.queries + i, c_.heads, h, p) *
                 at(k_, b * c_.keys + j, c_.key_heads, g, p);
      }
      const double e = sees(i, j) ? std::exp(scale_ * score) : 0.0;
      sum += e;
      for (std::int64_t p = 0; p < c_.width; ++p) {
        weighted[static_cast<std::size_t>(p)] += e * at(v_, b * c_.keys + j, c_.key_heads, g, p);
      }
    }
    for (const double value : weighted)
      out.push_back(value / sum);
    lse.push_back(std::log(sum));
  }

  Case c_;
  std::vector<double> q_;
  std::vector<double> k_;
  std::vector<double> v_;
  double scale_;
};

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, EqualsTheTextbook) {
  const Case& c = GetParam();
  DeviceFixture f;
  const Shape q_shape = {c.sequences * c.queries, c.heads, c.width};
  const Shape k_shape = {c.sequences * c.keys, c.key_heads, c.width};
  const TensorView q = f.normal(DType::kF64, q_shape, "q");
  const TensorView k = f.normal(DType::kF64, k_shape, "k");
  const TensorView v = f.normal(DType::kF64, k_shape, "v");
  const TensorView out = f.stale(DType::kF64, q_shape);
  const TensorView lse = f.stale(DType::kF64, {q_shape.dim(0), c.heads});
  constexpr double kScale = 0.7;
  attention_forward({.out = out,
                     .lse = lse,
                     .q = q,
                     .k = k,
                     .v = v,
                     .first_key = f.i32({q_shape.dim(0)}, first_keys(c)),
                     .num_sequences = c.sequences,
                     .window = c.window,
                     .scale = kScale},
                    f.ctx);
  std::vector<double> expected_out;
  std::vector<double> expected_lse;
  Textbook(c, f.values(q), f.values(k), f.values(v), kScale).run(expected_out, expected_lse);
  test::expect_close_to_largest(f.values(out), expected_out, kClosedFormF64, "out");
  test::expect_close_to_largest(f.values(lse), expected_lse, kClosedFormF64, "lse");
}

INSTANTIATE_TEST_SUITE_P(
    , AttentionTest,
    testing::Values(
        Case{.name = "OneToken"},
        Case{.name = "Causal", .sequences = 2, .queries = 7, .keys = 7, .heads = 2, .key_heads = 2},
        Case{.name = "GroupedHeads", .queries = 9, .keys = 9, .heads = 6, .key_heads = 2},
        Case{.name = "OneKeyHead", .queries = 5, .keys = 5, .heads = 3, .width = 7},
        Case{.name = "Window", .sequences = 2, .queries = 11, .keys = 11, .window = 3},
        Case{.name = "WindowOfOne", .queries = 4, .keys = 4, .window = 1},
        Case{.name = "Documents",
             .sequences = 2,
             .queries = 8,
             .keys = 8,
             .document_of_key = {0, 0, 0, 1, 2, 2, 2, 2}},
        Case{.name = "DocumentsAndWindow",
             .queries = 8,
             .keys = 8,
             .heads = 2,
             .window = 2,
             .document_of_key = {0, 0, 0, 0, 0, 1, 1, 1}},
        Case{.name = "Decode", .sequences = 3, .queries = 1, .keys = 6, .heads = 2},
        Case{.name = "DecodeSeveral", .queries = 3, .keys = 10, .window = 4}),
    [](const auto& param) { return param.param.name; });

TEST(Attention, EqualScoresTakeTheMean) {
  DeviceFixture f;
  const TensorView out = f.stale(DType::kF64, {4, 1, 1});
  const TensorView lse = f.stale(DType::kF64, {4, 1});
  attention_forward({.out = out,
                     .lse = lse,
                     .q = f.zeros(DType::kF64, {4, 1, 1}),
                     .k = f.normal(DType::kF64, {4, 1, 1}, "k"),
                     .v = f.f64({4, 1, 1}, {1, 2, 6, 11}),
                     .first_key = f.i32({4}, {0, 0, 0, 2})},
                    f.ctx);
  test::expect_close(f.values(out), {1, 1.5, 3, 8.5}, kClosedFormF64, "out");
  test::expect_close(f.values(lse), {0, std::log(2.0), std::log(3.0), std::log(2.0)},
                     kClosedFormF64, "lse");
}

TEST(Attention, LargeScoresDoNotOverflow) {
  DeviceFixture f;
  const TensorView out = f.stale(DType::kF64, {2, 1, 1});
  attention_forward({.out = out,
                     .lse = f.zeros(DType::kF64, {2, 1}),
                     .q = f.f64({2, 1, 1}, {1000, 1000}),
                     .k = f.f64({2, 1, 1}, {1000, -1000}),
                     .v = f.f64({2, 1, 1}, {3, 4}),
                     .first_key = f.i32({2}, {0, 0})},
                    f.ctx);
  EXPECT_EQ(f.values(out), (std::vector<double>{3, 3}));
}

TEST(Attention, BooksPairsOfAllHeads) {
  DeviceFixture f;
  AttentionForwardArgs args = {.out = f.zeros(DType::kF32, {4, 6, 8}),
                               .lse = f.zeros(DType::kF32, {4, 6}),
                               .q = f.zeros(DType::kF32, {4, 6, 8}),
                               .k = f.zeros(DType::kF32, {4, 2, 8}),
                               .v = f.zeros(DType::kF32, {4, 2, 8}),
                               .first_key = f.i32({4}, {0, 0, 0, 0}),
                               .booked_pairs = 10};
  attention_forward(args, f.ctx);
  EXPECT_EQ(f.meter.useful_flops(), 4.0 * 10 * 6 * 8);
  f.meter.reset();
  attention_backward({.grad_q = f.zeros(DType::kF32, {4, 6, 8}),
                      .grad_k = f.zeros(DType::kF32, {4, 2, 8}),
                      .grad_v = f.zeros(DType::kF32, {4, 2, 8}),
                      .grad_out = f.zeros(DType::kF32, {4, 6, 8}),
                      .q = args.q,
                      .k = args.k,
                      .v = args.v,
                      .out = args.out,
                      .lse = args.lse,
                      .first_key = args.first_key,
                      .booked_pairs = 10},
                     f.ctx);
  EXPECT_EQ(f.meter.useful_flops(), 8.0 * 10 * 6 * 8);
}

TEST(Attention, NoTokens) {
  DeviceFixture f;
  const TensorView none = f.zeros(DType::kF64, {0, 2, 4});
  const TensorView lse = f.zeros(DType::kF64, {0, 2});
  const TensorView first_key = f.i32({0}, {});
  attention_forward(
      {.out = none, .lse = lse, .q = none, .k = none, .v = none, .first_key = first_key}, f.ctx);
  attention_backward({.grad_q = none,
                      .grad_k = none,
                      .grad_v = none,
                      .grad_out = none,
                      .q = none,
                      .k = none,
                      .v = none,
                      .out = none,
                      .lse = lse,
                      .first_key = first_key},
                     f.ctx);
}

}  // namespace
}  // namespace ulmus::ops
