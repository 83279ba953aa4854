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

TEST_F(FileTest, ReadsRanges) {
  write_file_atomically(folder_ / "a", "0123456789");
  RangeReader reader(folder_ / "a");
  EXPECT_EQ(reader.size_bytes(), 10);
  const RangeReader moved = std::move(reader);
  std::string part(4, '\0');
  moved.read(3, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "3456");
  moved.read(10, {});
}

TEST_F(FileTest, WhatCannotBeReadIsNamedWithItsPlace) {
  const auto refusal = [](const RangeReader& reader, std::int64_t offset) {
    std::string part(4, '\0');
    try {
      reader.read(offset, std::as_writable_bytes(std::span(part)));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  const auto path = folder_ / "a";
  write_file_atomically(path, "0123456789");
  const RangeReader reader(path);
  EXPECT_EQ(refusal(reader, 8), path.string() + ": ends at byte 10, where 2 bytes more should be");
  std::filesystem::resize_file(path, 1);
  EXPECT_EQ(refusal(reader, 0), path.string() + ": ends at byte 1, where 3 bytes more should be");
  // Nothing lies at the first address of a process.
  EXPECT_EQ(refusal(RangeReader("/proc/self/mem"), 0),
            "cannot read /proc/self/mem at byte 0: Input/output error");
}

TEST_F(FileTest, RefusedAccessIsToldFromAMissingFile) {
  EXPECT_THROW(RangeReader(folder_ / "none"), InputError);
  try {
    RangeReader(folder_ / "none");
  } catch (const AccessError&) {
    FAIL() << "it is missing, not refused";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file"));
  }
  std::filesystem::create_symlink("loop", folder_ / "loop");
  EXPECT_THROW(RangeReader(folder_ / "loop"), AccessError);
  EXPECT_THROW(RangeReader{folder_}, InputError);
}

TEST_F(FileTest, AFlushThatFailsHasItsReason) {
  FileWriter writer("/dev/full");
  try {
    writer.sync_and_close();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot flush /dev/full: Invalid argument"));
  }
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
