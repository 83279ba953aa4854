#include "ulmus/data/deal.h"

#include <gtest/gtest.h>

namespace ulmus::data {
namespace {

/// All micro-batches of a rank.
std::vector<MicroBatch> dealt(std::int64_t num_sequences, const Deal& deal) {
  std::vector<MicroBatch> all;
  for (std::int64_t slot = 0; slot < deal.num_slots(num_sequences); ++slot)
    all.push_back(deal.micro_batch(slot, num_sequences));
  return all;
}

TEST(Deal, SevenSequencesInPairsOnThreeRanks) {
  // Micro-batches 0-1, 2-3, 4-5, 6.
  EXPECT_EQ(dealt(7, {2, 0, 3}), (std::vector<MicroBatch>{{0, 2}, {6, 1}}));
  EXPECT_EQ(dealt(7, {2, 1, 3}), (std::vector<MicroBatch>{{2, 2}, {7, 0}}));
  EXPECT_EQ(dealt(7, {2, 2, 3}), (std::vector<MicroBatch>{{4, 2}, {7, 0}}));
}

TEST(Deal, OneSequenceOnFourRanks) {
  EXPECT_EQ(dealt(1, {2, 0, 4}), (std::vector<MicroBatch>{{0, 1}}));
  EXPECT_EQ(dealt(1, {2, 3, 4}), (std::vector<MicroBatch>{{1, 0}}));
}

TEST(Deal, EverySequenceOnceAndTheSameMicroBatchesForAnyNumberOfRanks) {
  for (const std::int64_t num_sequences : {1, 2, 7, 8, 13}) {
    for (const std::int64_t micro : {1, 2, 3, 20}) {
      for (const int ranks : {1, 2, 3, 5}) {
        std::int64_t seen = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          for (const MicroBatch& batch : dealt(num_sequences, {micro, rank, ranks})) {
            seen += batch.num_sequences;
            if (batch.num_sequences == 0) continue;
            EXPECT_EQ(batch.first_sequence % micro, 0);
            EXPECT_TRUE(batch.num_sequences == micro ||
                        batch.first_sequence + batch.num_sequences == num_sequences);
          }
        }
        EXPECT_EQ(seen, num_sequences);
      }
    }
  }
}

}  // namespace
}  // namespace ulmus::data
