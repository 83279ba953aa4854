#include "ulmus/checkpoint/folder.h"

#include <gtest/gtest.h>

#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::spill;

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
  EXPECT_EQ(prune(dir(), 5).size(), 0);
  const auto removed = prune(dir(), 2);
  EXPECT_EQ(removed, (std::vector<fs::path>{dir() / "step-00000001"}));
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
  EXPECT_EQ(remove_leftovers(dir()), (std::vector<fs::path>{dir() / "step-00000002.part"}));
  EXPECT_TRUE(fs::exists(dir() / "step-00000001"));
  EXPECT_TRUE(fs::exists(dir() / "best.part"));
  EXPECT_TRUE(remove_leftovers(dir()).empty());
  EXPECT_TRUE(remove_leftovers(dir() / "none").empty());
}

}  // namespace
}  // namespace ulmus::checkpoint
