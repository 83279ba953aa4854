#include "ulmus/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "ulmus/base/check.h"

namespace ulmus {
namespace {

TEST(Check, NamesConditionAndValues) {
  const int top_k = 9;
  try {
    ULMUS_CHECK(top_k <= 8, "top_k ", top_k, " of ", 8);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("error_test.cc:"));
    EXPECT_THAT(error.what(), testing::HasSubstr("top_k <= 8 failed: top_k 9 of 8"));
    EXPECT_EQ(error.exit_code(), ExitCode::kFailed);
  }
}

TEST(Error, ExitCodes) {
  EXPECT_EQ(InputError("x").exit_code(), ExitCode::kUsage);
  EXPECT_EQ(DifferenceError("x").exit_code(), ExitCode::kDifference);
}

TEST(NearestName, OffersOnlyWhatIsNear) {
  const std::vector<std::string> names = {"top_k", "experts", "expert_hidden"};
  EXPECT_EQ(nearest_name("topk", names), "top_k");
  EXPECT_EQ(nearest_name("expert_hiden", names), "expert_hidden");
  EXPECT_EQ(nearest_name("momentum", names), "");
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace ulmus
