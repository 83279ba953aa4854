#include "ulmus/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/cpu/oracle_pair.h"

namespace ulmus::ops {
namespace {

using test::OraclePair;
using test::Twin;

enum class Documents { kOne, kPacked, kScattered };

struct Case {
  std::int64_t sequences = 1;
  std::int64_t queries = 1;  ///< of one sequence
  std::int64_t keys = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t width = 8;
  std::int64_t window = 0;
  Documents documents = Documents::kOne;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.sequences << " of " << c.queries << "/" << c.keys << ", heads " << c.heads << "/"
       << c.key_heads << "x" << c.width << ", window " << c.window << ", documents "
       << static_cast<int>(c.documents);
}

/// kPacked: documents of 37 keys. kScattered: any first key, in no order.
std::vector<std::int32_t> first_keys(const Case& c) {
  std::vector<std::int32_t> first;
  const auto random = test::DeviceFixture::integers(c.sequences * c.queries, 1 << 20, "first");
  for (std::int64_t n = 0; n < c.sequences * c.queries; ++n) {
    const auto pos = static_cast<std::int32_t>(c.keys - c.queries + n % c.queries);
    switch (c.documents) {
      case Documents::kOne:
        first.push_back(0);
        break;
      case Documents::kPacked:
        first.push_back(pos / 37 * 37);
        break;
      case Documents::kScattered:
        first.push_back(random[static_cast<std::size_t>(n)] % (pos + 1));
        break;
    }
  }
  return first;
}

/// Inputs of both directions, and what the forward call gives.
struct Tensors {
  Tensors(OraclePair& pair, const Case& c)
      : q(pair.normal({c.sequences * c.queries, c.heads, c.width}, "q")),
        k(pair.normal({c.sequences * c.keys, c.key_heads, c.width}, "k")),
        v(pair.normal({c.sequences * c.keys, c.key_heads, c.width}, "v")),
        first_key(pair.i32({c.sequences * c.queries}, first_keys(c))),
        out(pair.stale({c.sequences * c.queries, c.heads, c.width})),
        lse(pair.stale({c.sequences * c.queries, c.heads})) {}
  Twin q;
  Twin k;
  Twin v;
  Twin first_key;
  Twin out;
  Twin lse;
};

// Large enough that a softmax is neither flat nor one-hot.
double scale_of(const Case& c) { return 1.7 / std::sqrt(static_cast<double>(c.width)); }

void run_forward(OraclePair& pair, const Case& c, const Tensors& t) {
  const auto call = [&](test::DeviceFixture& fixture, TensorView Twin::* side) {
    AttentionForwardArgs args;
    args.out = t.out.*side;
    args.lse = t.lse.*side;
    args.q = t.q.*side;
    args.k = t.k.*side;
    args.v = t.v.*side;
    args.first_key = t.first_key.*side;
    args.num_sequences = c.sequences;
    args.window = c.window;
    args.scale = scale_of(c);
    attention_forward(args, fixture.ctx);
  };
  call(pair.fast, &Twin::fast);
  call(pair.exact, &Twin::exact);
}

struct Gradients {
  Twin q;
  Twin k;
  Twin v;
};

Gradients run_backward(OraclePair& pair, const Case& c, const Tensors& t) {
  const Twin grad_out = pair.normal({c.sequences * c.queries, c.heads, c.width}, "grad_out");
  const Gradients gradients{pair.stale({c.sequences * c.queries, c.heads, c.width}),
                            pair.stale({c.sequences * c.keys, c.key_heads, c.width}),
                            pair.stale({c.sequences * c.keys, c.key_heads, c.width})};
  const auto call = [&](test::DeviceFixture& fixture, TensorView Twin::* side) {
    AttentionBackwardArgs args;
    args.grad_q = gradients.q.*side;
    args.grad_k = gradients.k.*side;
    args.grad_v = gradients.v.*side;
    args.grad_out = grad_out.*side;
    args.q = t.q.*side;
    args.k = t.k.*side;
    args.v = t.v.*side;
    args.out = t.out.*side;
    args.lse = t.lse.*side;
    args.first_key = t.first_key.*side;
    args.num_sequences = c.sequences;
    args.window = c.window;
    args.scale = scale_of(c);
    attention_backward(args, fixture.ctx);
  };
  call(pair.fast, &Twin::fast);
  call(pair.exact, &Twin::exact);
  return gradients;
}

class CpuAttentionForwardTest : public testing::TestWithParam<Case> {};

TEST_P(CpuAttentionForwardTest, EqualsTheOracle) {
  const Case& c = GetParam();
  for (const int num_threads : {1, 3}) {
    OraclePair pair(num_threads);
    const Tensors tensors(pair, c);
    run_forward(pair, c, tensors);
    pair.expect_same(tensors.out, test::kReduceF32, "out");
    pair.expect_same(tensors.lse, test::kReduceF32, "lse");
  }
}

// Queries: 1, odd, a strip of 16, just over a strip, a tile of 64, just over it. Keys: also just
// over a tile, and more than queries (decoding).
INSTANTIATE_TEST_SUITE_P(Shapes, CpuAttentionForwardTest,
                         testing::Values(Case{}, Case{2, 3, 3, 2, 1, 5}, Case{1, 16, 16, 2, 2, 8},
                                         Case{1, 17, 17, 3, 3, 12}, Case{2, 64, 64, 4, 2, 16},
                                         Case{1, 65, 65, 2, 1, 33}, Case{1, 131, 131, 4, 4, 64},
                                         Case{1, 1, 300, 4, 2, 32}, Case{3, 1, 129, 6, 2, 20},
                                         Case{2, 5, 133, 2, 2, 16}, Case{1, 70, 200, 2, 1, 128},
                                         Case{1, 67, 67, 2, 2, 16, 1},
                                         Case{1, 150, 150, 2, 1, 24, 9},
                                         Case{2, 131, 131, 1, 1, 16, 70},
                                         Case{1, 10, 150, 2, 1, 24, 40},
                                         Case{2, 150, 150, 2, 1, 16, 0, Documents::kPacked},
                                         Case{1, 150, 150, 2, 2, 16, 30, Documents::kPacked},
                                         Case{2, 140, 140, 2, 1, 16, 0, Documents::kScattered},
                                         Case{1, 300, 300, 1, 1, 8, 100, Documents::kScattered}));

class CpuAttentionBackwardTest : public testing::TestWithParam<Case> {};

TEST_P(CpuAttentionBackwardTest, EqualsTheOracleOnAnyNumberOfThreadsWithTheSameBits) {
  const Case& c = GetParam();
  std::vector<std::vector<double>> bits;
  for (const int num_threads : {1, 2, 3, 8}) {
    OraclePair pair(num_threads);
    const Tensors tensors(pair, c);
    run_forward(pair, c, tensors);
    const Gradients gradients = run_backward(pair, c, tensors);
    pair.expect_same(gradients.q, test::kAttentionGradF32, "grad_q");
    pair.expect_same(gradients.k, test::kAttentionGradF32, "grad_k");
    pair.expect_same(gradients.v, test::kAttentionGradF32, "grad_v");
    const std::vector<std::vector<double>> here = {pair.fast.values(gradients.q.fast),
                                                   pair.fast.values(gradients.k.fast),
                                                   pair.fast.values(gradients.v.fast)};
    if (bits.empty()) bits = here;
    EXPECT_EQ(here, bits) << num_threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CpuAttentionBackwardTest,
                         testing::Values(Case{}, Case{2, 3, 3, 2, 1, 5}, Case{1, 16, 16, 2, 2, 8},
                                         Case{1, 17, 17, 3, 3, 12}, Case{2, 64, 64, 4, 2, 16},
                                         Case{1, 65, 65, 2, 1, 33}, Case{1, 131, 131, 4, 4, 64},
                                         Case{1, 67, 67, 2, 2, 16, 1},
                                         Case{1, 150, 150, 2, 1, 24, 9},
                                         Case{2, 131, 131, 1, 1, 16, 70},
                                         Case{2, 150, 150, 2, 1, 16, 0, Documents::kPacked},
                                         Case{1, 150, 150, 2, 2, 16, 30, Documents::kPacked},
                                         Case{2, 140, 140, 2, 1, 16, 0, Documents::kScattered},
                                         Case{1, 200, 200, 4, 1, 128, 100, Documents::kScattered}));

TEST(CpuAttention, NoRowsDoNothing) {
  OraclePair pair(2);
  const Case c{1, 0, 0, 2, 1, 8};
  const Tensors tensors(pair, c);
  run_forward(pair, c, tensors);
  run_backward(pair, c, tensors);
}

TEST(CpuAttention, LargeScoresDoNotOverflow) {
  OraclePair pair(1);
  const Case c{1, 70, 70, 1, 1, 16};
  Tensors tensors(pair, c);
  tensors.q = pair.normal({70, 1, 16}, "q", 40.0);
  run_forward(pair, c, tensors);
  pair.expect_same(tensors.out, test::kLargeScoresF32, "out");
  pair.expect_same(tensors.lse, test::kReduceF32, "lse");
}

TEST(CpuAttention, NotANumberIsSeenByTheQueriesThatReadIt) {
  OraclePair pair(2);
  const Case c{1, 80, 80, 1, 1, 8};
  Tensors tensors(pair, c);
  std::vector<double> k = test::DeviceFixture::normals({80, 1, 8}, "k");
  k[static_cast<std::size_t>(20 * 8)] = std::nan("");
  tensors.k = pair.floats({80, 1, 8}, k);
  run_forward(pair, c, tensors);
  const std::vector<double> out = pair.fast.values(tensors.out.fast);
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(std::isnan(out[i]), i >= 20 * 8) << i;
}

}  // namespace
}  // namespace ulmus::ops
