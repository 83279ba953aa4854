#include "ulmus/train/metrics.h"

#include <gtest/gtest.h>

#include "tests/support/tolerance.h"
#include "ulmus/base/file.h"

namespace ulmus::test {
namespace {

TEST(LoadFacts, OfTheReportsVectors) {
  // report of Olmo-core 3, section 10: I_max and entropy deficit of (9, 6, 3, 2).
  const auto load = train::load_facts({9, 6, 3, 2});
  EXPECT_NEAR(load.max_over_mean, 1.8, kClosedFormF64.relative);
  EXPECT_NEAR(load.entropy_deficit, 0.1089, 5e-5);  // the report prints four digits
  EXPECT_NEAR(train::load_facts({5, 5, 5}).entropy_deficit, 0.0, kClosedFormF64.relative);
  EXPECT_NEAR(train::load_facts({7, 0, 0}).entropy_deficit, 1.0, kClosedFormF64.relative);
  EXPECT_EQ(train::load_facts({0, 0}).max_over_mean, 0.0);
}

TEST(ExactStepBalance, IsOneAtUniformAndBelowForGerrymandering) {
  EXPECT_NEAR(train::exact_step_balance({3, 3}, {3.0, 3.0}, 6.0), 1.0, kClosedFormF64.relative);
  // Counts (2, 4) against mean scores (3/5, 2/5): 14/15.
  EXPECT_NEAR(train::exact_step_balance({2, 4}, {3.6, 2.4}, 6.0), 14.0 / 15.0,
              kClosedFormF64.relative);
}

TEST(LoadPicture, FillsHalfAtTheMean) {
  EXPECT_EQ(train::load_picture({4, 4}), "\u2584\u2584");
  EXPECT_EQ(train::load_picture({0, 8}), " \u2588");
  EXPECT_EQ(train::load_picture({0, 0}), "  ");
}

TEST(MetricsFile, DropsLinesOfLaterStepsAndBrokenOnes) {
  const auto path = std::filesystem::path(testing::TempDir()) / "ulmus_metrics.jsonl";
  write_file_atomically(path,
                        "{\"step\":1}\n{\"step\":\"one\"}\n{\"step\":null}\n[1]\n{}\n"
                        "{\"step\":2}\n{\"step\":3}\n{\"ste");
  train::MetricsFile file(path, 2);
  file.write("{\"step\":3,\"again\":1}");
  EXPECT_EQ(read_file(path), "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"again\":1}\n");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ulmus::test
