#include "ulmus/comm/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace ulmus::comm {
namespace {

/// The environment without any launcher's variables. Each test is a process of its own under CTest;
/// what is set is taken away again.
class LaunchTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK",
                             "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS"}) {
      unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(LaunchTest, ByHand) {
  EXPECT_FALSE(is_launched());
  EXPECT_FALSE(launched_ranks().has_value());
}

TEST_F(LaunchTest, ByMpirun) {
  set("OMPI_COMM_WORLD_SIZE", "4");
  set("PMIX_RANK", "3");
  EXPECT_TRUE(is_launched());
  EXPECT_EQ(launched_ranks(), 4);
  EXPECT_EQ(launched_rank(), 3);
}

TEST_F(LaunchTest, ByMpirunWithOneRank) {
  set("OMPI_COMM_WORLD_SIZE", "1");
  EXPECT_TRUE(is_launched());
  EXPECT_EQ(launched_ranks(), 1);
}

TEST_F(LaunchTest, ByHydra) {
  set("PMI_SIZE", "3");
  EXPECT_TRUE(is_launched());
  EXPECT_EQ(launched_ranks(), 3);
}

TEST_F(LaunchTest, BySrun) {
  set("SLURM_STEP_NUM_TASKS", "16");
  EXPECT_TRUE(is_launched());
  EXPECT_EQ(launched_ranks(), 16);
}

TEST_F(LaunchTest, OneTaskOfSrunIsAProgram) {
  set("SLURM_STEP_NUM_TASKS", "1");
  set("SLURM_PROCID", "0");
  EXPECT_FALSE(is_launched());
}

TEST_F(LaunchTest, ABatchScriptIsNoRank) {
  set("SLURM_NTASKS", "16");
  set("SLURM_PROCID", "0");
  EXPECT_FALSE(is_launched());
}

TEST_F(LaunchTest, WhatIsNoNumberIsNotCounted) {
  set("PMI_SIZE", "4x");
  EXPECT_FALSE(launched_ranks().has_value());
}

}  // namespace
}  // namespace ulmus::comm
