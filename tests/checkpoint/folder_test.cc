#include "ulmus/checkpoint/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::spill;
using ::testing::HasSubstr;

class Folder : public ::testing::Test {
 protected:
  void make(const std::string& name) {
    fs::create_directories(dir() / name);
    spill(dir() / name / kManifestName, "{}");
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const Entry& entry : list(dir()))
      found.push_back(entry.step);
    return found;
  }
  const fs::path& dir() const { return folder_.path(); }

 private:
  test::TempFolder folder_;
};

TEST_F(Folder, NamesSortAsNumbers) {
  EXPECT_EQ(folder_name(0), "step-00000000");
  EXPECT_EQ(folder_name(100), "step-00000100");
  EXPECT_EQ(folder_name(1'234'567'890), "step-1234567890");
  EXPECT_THROW(folder_name(-1), Error);
}

TEST_F(Folder, ListsCheckpointsOnly) {
  EXPECT_TRUE(list(dir() / "none").empty());
  EXPECT_FALSE(newest(dir()).has_value());
  for (const char* name : {"step-00000100", "step-00000020", "step-1234567890",
                           "step-00000300.part", "step-000000100", "step-100", "step-",
                           "step-0000010x", "best", "step--0000001", "step-99999999999999999999"}) {
    make(name);
  }
  spill(dir() / "step-00000400", "a file");
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{20, 100, 1'234'567'890}));
  EXPECT_EQ(newest(dir())->step, 1'234'567'890);
  EXPECT_EQ(newest(dir())->path, dir() / "step-1234567890");
}

TEST_F(Folder, PruneKeepsTheNewest) {
  for (const char* name : {"step-00000001", "step-00000002", "step-00000003", "best"})
    make(name);
  EXPECT_EQ(prune(dir(), 5).removed.size(), 0);
  const Removal removal = prune(dir(), 2);
  EXPECT_EQ(removal.removed, (std::vector<fs::path>{dir() / "step-00000001"}));
  EXPECT_TRUE(removal.kept.empty());
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{2, 3}));
  prune(dir(), 1);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{3}));
  EXPECT_TRUE(fs::exists(dir() / "best"));
  EXPECT_THROW(prune(dir(), 0), Error);
}

TEST_F(Folder, LeftoversGoAndNothingElse) {
  for (const char* name : {"step-00000001", "step-00000002.part", "best.part", "step-x.part"}) {
    make(name);
  }
  EXPECT_EQ(remove_leftovers(dir()).removed, (std::vector<fs::path>{dir() / "step-00000002.part"}));
  EXPECT_TRUE(fs::exists(dir() / "step-00000001"));
  EXPECT_TRUE(fs::exists(dir() / "best.part"));
  EXPECT_TRUE(remove_leftovers(dir()).removed.empty());
  EXPECT_TRUE(remove_leftovers(dir() / "none").removed.empty());
}

TEST_F(Folder, WhatCannotBeRemovedIsToldAndTheRestGoes) {
  for (const char* name : {"step-00000001", "step-00000002", "step-00000003"})
    make(name);
  spill(dir() / "step-00000001.part", "a file in the way of the name that it would get");
  const Removal removal = prune(dir(), 1);
  EXPECT_EQ(removal.removed, (std::vector<fs::path>{dir() / "step-00000002"}));
  ASSERT_EQ(removal.kept.size(), 1);
  EXPECT_THAT(removal.kept[0], HasSubstr("cannot remove " + (dir() / "step-00000001").string()));
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 3}));
}

TEST(FolderName, IsFreeOrThatOfTheStep) {
  EXPECT_TRUE(may_be_named("best", 7));
  EXPECT_TRUE(may_be_named("step-00000007", 7));
  for (const char* name : {"step-00000008", "step-7", "step-", "step-00000007.bad"})
    EXPECT_FALSE(may_be_named(name, 7)) << name;
}

}  // namespace
}  // namespace ulmus::checkpoint
