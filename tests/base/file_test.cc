#include "ulmus/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ulmus/base/error.h"

namespace ulmus {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() { std::filesystem::create_directories(folder_); }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      ("ulmus_file_test_" +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(FileTest, WritesAtomicallyAndReadsBack) {
  const auto path = folder_ / "a.txt";
  write_file_atomically(path, "one");
  write_file_atomically(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.txt.part"));
}

TEST_F(FileTest, EmptyFilesMapToNothing) {
  write_file_atomically(folder_ / "empty", "");
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
}

TEST_F(FileTest, NamesWhatIsMissing) {
  try {
    read_file(folder_ / "missing");
    FAIL() << "did not throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr((folder_ / "missing").string()));
  }
  EXPECT_THROW(read_file(folder_), InputError);
  EXPECT_THROW(FileWriter(folder_ / "no" / "such" / "folder"), Error);
}

TEST_F(FileTest, FullDiskIsAnErrorWithTheReason) {
  FileWriter writer("/dev/full");
  try {
    writer.write("x");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("No space left"));
  }
}

TEST_F(FileTest, LocksExcludeEachOther) {
  const auto path = folder_ / "lock";
  {
    const FileLock lock(path);
    EXPECT_THROW(FileLock second(path), InputError);
  }
  const FileLock again(path);
  EXPECT_GT(free_bytes(folder_), 0);
}

}  // namespace
}  // namespace ulmus
