#include "ulmus/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

PhiloxKey key(std::uint64_t seed) { return philox_key(seed, RandomPurpose::kTest, "sampler"); }

std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch, std::int64_t n) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < n; ++i)
    indices.push_back(shuffled_index(key(seed), epoch, n, i));
  return indices;
}

TEST(ShuffledIndex, IsABijection) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4097}) {
    for (const std::int64_t epoch : {0, 1, 5}) {
      std::vector<std::int64_t> indices = order(3, epoch, n);
      std::sort(indices.begin(), indices.end());
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(indices[static_cast<std::size_t>(i)], i) << "n " << n;
      }
    }
  }
}

TEST(ShuffledIndex, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(order(1, 0, 500), order(1, 0, 500));
  EXPECT_NE(order(1, 0, 500), order(2, 0, 500));
  EXPECT_NE(order(1, 0, 500), order(1, 1, 500));
  const std::int64_t huge = std::int64_t{1} << 61;
  const std::int64_t index = shuffled_index(key(1), 0, huge, huge - 1);
  EXPECT_GE(index, 0);
  EXPECT_LT(index, huge);
}

TEST(ShuffledIndex, MixesWell) {
  // Over 3,000 epochs each position should see each of 8 indices about 375 times; 100 is more than
  // five standard deviations of a fair draw.
  constexpr int kEpochs = 3000;
  constexpr int kSize = 8;
  std::vector<int> hits(kSize * kSize);
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::int64_t i = 0; i < kSize; ++i) {
      ++hits[static_cast<std::size_t>(i * kSize + shuffled_index(key(5), epoch, kSize, i))];
    }
  }
  for (const int hit : hits)
    EXPECT_NEAR(hit, kEpochs / kSize, 100);
  // Neighbours in the order are no neighbours in the file.
  const std::vector<std::int64_t> indices = order(9, 0, 10000);
  int near = 0;
  for (std::size_t i = 1; i < indices.size(); ++i) {
    near += std::abs(indices[i] - indices[i - 1]) <= 10 ? 1 : 0;
  }
  EXPECT_LT(near, 50);  // a fair order has about 20
}

TEST(Mixture, CountsItsOwnDraws) {
  const std::vector<double> weights{0.5, 0.3, 0.15, 0.05};
  const Mixture mixture(11, weights, {"a", "b", "c", "d"});
  std::vector<std::int64_t> draws(weights.size());
  for (std::int64_t position = 0; position < 70000; ++position) {
    const int source = mixture.source_at(position);
    if (position % 97 == 0 || position < 300) {
      for (int s = 0; s < 4; ++s) {
        ASSERT_EQ(mixture.draws_before(s, position), draws[static_cast<std::size_t>(s)])
            << "source " << s << " position " << position;
      }
    }
    ++draws[static_cast<std::size_t>(source)];
  }
}

TEST(Mixture, KeepsTheSharesAtEveryPosition) {
  const std::vector<double> weights{7.0, 2.0, 1.0};
  const Mixture mixture(4, weights, {"a", "b", "c"});
  std::vector<double> draws(3);
  double worst = 0.0;
  for (std::int64_t position = 0; position < 100000; ++position) {
    draws[static_cast<std::size_t>(mixture.source_at(position))] += 1.0;
    for (std::size_t s = 0; s < 3; ++s) {
      const double share = weights[s] / 10.0 * static_cast<double>(position + 1);
      worst = std::max(worst, std::abs(draws[s] - share));
    }
  }
  EXPECT_LT(worst, 17.0);  // as the header says
}

TEST(Mixture, DoesNotTakeTurns) {
  // With two equal sources each aligned pair of positions has one of each, in random order.
  const Mixture mixture(4, {1.0, 1.0}, {"a", "b"});
  int first = 0;
  for (std::int64_t position = 0; position < 2000; position += 2) {
    ASSERT_NE(mixture.source_at(position), mixture.source_at(position + 1));
    first += mixture.source_at(position);
  }
  EXPECT_NEAR(first, 500, 100);  // six standard deviations
}

TEST(Mixture, RefusesWeightsThatMeanNothing) {
  for (const double weight : {0.0, -1.0, std::nan(""), HUGE_VAL, 1e-9}) {
    EXPECT_THROW(Mixture(1, {1.0, weight}, {"a", "b"}), InputError) << weight;
  }
}

TEST(Sampler, OneSourceIsUsedUpBeforeItRepeats) {
  const Sampler sampler(1, {{"a", 100}});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 100; ++i) {
      const Draw draw = sampler.at(epoch * 100 + i);
      EXPECT_EQ(draw.epoch, epoch);
      seen.insert(draw.index);
    }
    EXPECT_EQ(seen.size(), 100U);
  }
}

TEST(Sampler, EachOfSeveralSourcesIsUsedUpBeforeItRepeats) {
  const std::vector<SampledSource> sources{{"a", 50, 0.7}, {"b", 1000, 0.2}, {"c", 3, 0.1}};
  const Sampler sampler(8, sources);
  std::map<std::pair<int, std::int64_t>, std::set<std::int64_t>> seen;
  for (std::int64_t position = 0; position < 5000; ++position) {
    const Draw draw = sampler.at(position);
    const bool is_new = seen[{draw.source, draw.epoch}].insert(draw.index).second;
    ASSERT_TRUE(is_new) << "repeated inside an epoch";
    if (draw.epoch > 0) {
      ASSERT_EQ(static_cast<std::int64_t>((seen[{draw.source, draw.epoch - 1}]).size()),
                sources[static_cast<std::size_t>(draw.source)].num_instances);
    }
  }
  EXPECT_EQ((seen[{0, 68}]).size(), 50U);  // 3,500 draws, give or take 17
}

TEST(Sampler, RefusesNothing) {
  EXPECT_THROW(Sampler(1, {}), InputError);
  EXPECT_THROW(Sampler(1, {{"a", 0}}), InputError);
}

}  // namespace
}  // namespace ulmus::data
