// tools/corpus/austen_text on a made-up package file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <zlib.h>

#include <cstdlib>
#include <string>

#include "tests/data/test_files.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

std::string big_endian(std::size_t n) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>((n >> shift) & 0xFFU));
  }
  return bytes;
}

std::string serialised(const std::vector<std::string>& lines) {
  std::string bytes = "X\n" + big_endian(3) + big_endian(0x40201) + big_endian(0x30500) +
                      big_endian(5) + "UTF-8" + big_endian(16) + big_endian(lines.size());
  for (const std::string& line : lines) {
    bytes += big_endian(0x40009) + big_endian(line.size()) + line;
  }
  return bytes;
}

std::string record(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()));
  packed.resize(size);
  return big_endian(bytes.size()) + packed;
}

std::string package() {
  std::string file;
  for (const std::string title : {"EMMA", "MANSFIELD PARK", "NORTHANGER ABBEY", "Persuasion",
                                  "PRIDE AND PREJUDICE", "SENSE AND SENSIBILITY"}) {
    file += record(serialised({title, "", "one", "", "two", "", "three is as long", "", "four"}));
  }
  return file;
}

int run(const std::filesystem::path& rdb, const std::filesystem::path& out) {
  const std::string command = std::string(ULMUS_AUSTEN_TEXT) + " " + rdb.string() + " " +
                              out.string() + " 2>" + out.string() + ".log";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(AustenText, HalvesTheTwoNovelsAtAParagraph) {
  TestFolder folder;
  const auto out = folder.path() / "out";
  ASSERT_EQ(run(folder.write("Rdata.rdb", package()), out), 0);
  const std::string novel = read_file(out / "novels/pride-and-prejudice.txt");
  EXPECT_EQ(novel, "PRIDE AND PREJUDICE\n\none\n\ntwo\n\nthree is as long\n\nfour\n");
  const std::string first = read_file(out / "train/pride-and-prejudice.txt");
  const std::string second = read_file(out / "heldout/pride-and-prejudice.txt");
  EXPECT_EQ(first + second, novel);
  EXPECT_EQ(second.substr(0, 5), "three");
  EXPECT_EQ(read_file(out / "train/persuasion.txt"), read_file(out / "novels/persuasion.txt"));
  EXPECT_EQ(read_file(out / "dev-train/persuasion.txt") + read_file(out / "dev/persuasion.txt"),
            read_file(out / "novels/persuasion.txt"));
  EXPECT_EQ(read_file(out / "dev-train/pride-and-prejudice.txt"), first);
  for (const std::string name : {"heldout", "dev"}) {
    const std::filesystem::directory_iterator files(out / name);
    EXPECT_EQ(std::distance(begin(files), end(files)), 1) << name;
  }
}

TEST(AustenText, RefusesOtherFiles) {
  TestFolder folder;
  const auto out = folder.path() / "out";
  const std::string good = package();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{3}, good.size() / 2, good.size() - 1}) {
    EXPECT_EQ(run(folder.write("cut.rdb", good.substr(0, size)), out), 2) << size;
  }
  EXPECT_EQ(run(folder.write("x.rdb", record("X\nnonsense")), out), 2);
  EXPECT_EQ(run(folder.write("y.rdb", record(serialised({"ULYSSES"}))), out), 2);
  EXPECT_EQ(run(folder.path() / "absent.rdb", out), 2);
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace ulmus::data
