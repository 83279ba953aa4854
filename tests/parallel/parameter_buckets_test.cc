#include "ulmus/parallel/parameter_buckets.h"

#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"

namespace ulmus::parallel {
namespace {

using nn::ParameterFamily;

/// Two units; the second has experts, of which this rank holds a third.
struct Model {
  explicit Model(int shard)
      : memory(f.arena, nullptr),
        parameters(memory, nn::ParameterSet::Gradients::kNone, DType::kF32, {shard, 3}) {
    parameters.begin_unit("embedding");
    parameters.add("embedding", {100, 90}, ParameterFamily::kDense, {});
    parameters.begin_unit("block");
    parameters.add("norm", {5}, ParameterFamily::kDense, {});
    parameters.add("router", {7, 3}, ParameterFamily::kDense, {});
    parameters.add("experts", {6, 5000}, ParameterFamily::kExpert, {});
  }
  test::DeviceFixture f;
  nn::ArenaMemory memory;
  nn::ParameterSet parameters;
};

TEST(ParameterBuckets, OneForEachUnitAndFamily) {
  const Model model(1);
  const std::vector<Bucket> buckets = make_buckets(model.parameters);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].numel, 9000);
  EXPECT_EQ(buckets[1].first, 1);
  EXPECT_EQ(buckets[1].last, 2);
  EXPECT_EQ(buckets[1].positions, (std::vector<std::int64_t>{0, 16}));  // 64 bytes of f32
  EXPECT_EQ(buckets[1].numel, 16 + 21);
  EXPECT_EQ(buckets[2].family, ParameterFamily::kExpert);
  EXPECT_EQ(buckets[2].unit, 1);
  EXPECT_EQ(buckets[2].numel, 10000);
}

TEST(ParameterBuckets, CutsLieWhereBlocksBegin) {
  const Model model(1);
  const std::vector<Bucket> buckets = make_buckets(model.parameters);
  // Blocks begin at 0, 4096, 8192.
  EXPECT_EQ(cut_bucket(buckets[0], model.parameters, 2),
            (std::vector<std::int64_t>{0, 4096, 9000}));
  EXPECT_EQ(cut_bucket(buckets[0], model.parameters, 4),
            (std::vector<std::int64_t>{0, 4096, 4096, 8192, 9000}));
  // Two experts: 0, 4096, 5000, 9096.
  EXPECT_EQ(cut_bucket(buckets[2], model.parameters, 2),
            (std::vector<std::int64_t>{0, 5000, 10000}));
  EXPECT_EQ(cut_bucket(buckets[2], model.parameters, 1), (std::vector<std::int64_t>{0, 10000}));
}

TEST(ParameterBuckets, EveryBlockHasOneOwner) {
  const Model model(2);
  for (const Bucket& bucket : make_buckets(model.parameters)) {
    for (const int ranks : {1, 2, 3, 5, 9}) {
      const std::vector<std::int64_t> bounds = cut_bucket(bucket, model.parameters, ranks);
      for (int i = bucket.first; i <= bucket.last; ++i) {
        const nn::Parameter& parameter = model.parameters.all()[static_cast<std::size_t>(i)];
        std::int64_t next = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto at = static_cast<std::size_t>(rank);
          const BlockRange blocks =
              blocks_in(parameter, bucket.positions[static_cast<std::size_t>(i - bucket.first)],
                        bounds[at], bounds[at + 1]);
          EXPECT_EQ(blocks.begin, next);
          next = blocks.end;
        }
        EXPECT_EQ(next, num_blocks(parameter.value.numel(), parameter.slice_elements));
      }
    }
  }
}

TEST(ParameterBuckets, BlocksOfExpertsAreNumberedThroughTheWholeTensor) {
  const Model model(2);  // experts 4 and 5, each of two blocks
  const nn::Parameter& experts = model.parameters.all().back();
  EXPECT_EQ(experts.first_element, 20000);
  const BlockRange global = global_blocks(experts, {10000, 5000, 1, 4});
  EXPECT_EQ(global.begin, 9);
  EXPECT_EQ(global.end, 12);
  EXPECT_EQ(global.numel, 30000);
  EXPECT_EQ(global.element_begin(), 20000 + 4096);
}

}  // namespace
}  // namespace ulmus::parallel
