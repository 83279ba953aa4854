#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/checkpoint/info.h"
#include "ulmus/checkpoint/reader.h"
#include "ulmus/checkpoint/verify.h"

/// A checkpoint damaged in every way we could think of: never a crash, never a silent load.
namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::save_small;
using test::slurp;
using test::SmallModel;
using test::spill;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class Damage : public ::testing::Test {
 protected:
  Damage() : model_(1) {
    save_small(model_, folder_.path(), 50);
    path_ = save_small(model_, folder_.path(), 100);
  }

  /// What load says.
  std::string refusal() {
    return message_of<InputError>(
        [&] { load(path_, model_.tensors, *model_.device, model_.ranks()); });
  }
  /// What verify says, line by line.
  std::string differences() const {
    std::string lines;
    for (const std::string& line : verify(path_).differences)
      lines += line + "\n";
    return lines;
  }
  /// Both must name the same trouble, and load the way out.
  void expect_named(const std::string& what) {
    const std::string message = refusal();
    EXPECT_THAT(message, HasSubstr(what));
    EXPECT_THAT(message, HasSubstr("damaged checkpoint"));
    EXPECT_THAT(message, HasSubstr("the newest checkpoint beside it that looks whole is"));
    EXPECT_THAT(message, HasSubstr("step-00000050 (step 50;"));
    EXPECT_THAT(differences(), HasSubstr(what));
  }

  fs::path file(const std::string& name) const { return path_ / name; }
  const fs::path& dir() const { return folder_.path(); }

  SmallModel model_;
  fs::path path_;

 private:
  test::TempFolder folder_;
};

TEST_F(Damage, AMissingFileIsNamed) {
  for (const char* name : {"layer-00.safetensors", "head.safetensors", "manifest.json"}) {
    const std::string bytes = slurp(file(name));
    fs::remove(file(name));
    expect_named(name);
    spill(file(name), bytes);
    EXPECT_EQ(refusal(), "");
  }
  fs::remove(file("info.json"));
  EXPECT_EQ(refusal(), "") << "nothing is computed from info.json";
  EXPECT_THAT(differences(), HasSubstr("info.json"));
}

TEST_F(Damage, ATruncatedFileIsNamed) {
  for (const char* name : {"layer-00.safetensors", "manifest.json", "embedding.safetensors"}) {
    const std::string bytes = slurp(file(name));
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{5}, std::size_t{8}, bytes.size() / 2, bytes.size() - 1}) {
      spill(file(name), bytes.substr(0, length));
      expect_named(name);
    }
    spill(file(name), bytes + "x");
    expect_named(name);
    spill(file(name), bytes);
  }
}

TEST_F(Damage, AFlippedBitInATensorNamesTheTensor) {
  const std::string bytes = slurp(file("layer-00.safetensors"));
  std::string damaged = bytes;
  damaged[damaged.size() - 100] ^= 1;
  spill(file("layer-00.safetensors"), damaged);
  expect_named("tensor \"layers.0.moe.experts.up\": its data have hash");
}

TEST_F(Damage, AbsurdHeaderLengthsAreNamed) {
  const std::string bytes = slurp(file("head.safetensors"));
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{bytes.size()}, std::uint64_t{99'999'999}, UINT64_MAX}) {
    std::string damaged = bytes;
    std::memcpy(damaged.data(), &length, 8);
    spill(file("head.safetensors"), damaged);
    expect_named("head.safetensors");
  }
}

TEST_F(Damage, AnyFlippedBitAnywhereIsFound) {
  const PhiloxKey key = philox_key(3, RandomPurpose::kTest, "flips");
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    const std::string bytes = slurp(entry.path());
    // The first 400 bytes hold all of a header's kinds of bytes, padding included.
    for (std::uint32_t i = 0; i < 40; ++i) {
      const PhiloxCounter draw = philox(key, {i, 0, 0, 0});
      const std::size_t range =
          i % 2 == 0 ? bytes.size() : std::min<std::size_t>(400, bytes.size());
      const std::size_t at = draw[0] % range;
      std::string damaged = bytes;
      damaged[at] =
          static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ (1U << (draw[1] % 8)));
      spill(file(name), damaged);
      ASSERT_THAT(differences(), HasSubstr(name)) << "byte " << at;
      if (name != "info.json" && i % 4 < 2) {
        ASSERT_NE(message_of<InputError>(
                      [&] { load(path_, model_.tensors, *model_.device, model_.ranks()); }),
                  "")
            << name << " byte " << at;
      }
    }
    spill(file(name), bytes);
  }
  EXPECT_EQ(differences(), "");
}

TEST_F(Damage, RandomBytesNeverCrash) {
  const PhiloxKey key = philox_key(4, RandomPurpose::kTest, "random bytes");
  for (const char* name : {"manifest.json", "layer-00.safetensors", "info.json"}) {
    const std::string bytes = slurp(file(name));
    for (std::uint32_t i = 0; i < 100; ++i) {
      std::string damaged = bytes;
      for (std::uint32_t k = 0; k < 1 + i % 16; ++k) {
        const PhiloxCounter draw = philox(key, {i, k, 0, 0});
        damaged[draw[0] % std::min<std::size_t>(damaged.size(), 700)] = static_cast<char>(draw[1]);
      }
      if (damaged == bytes) continue;
      spill(file(name), damaged);
      ASSERT_NE(differences(), "") << name << " round " << i;
    }
    spill(file(name), bytes);
  }
}

TEST_F(Damage, JsonGarbageIsNamed) {
  for (const char* text : {"", "[]", "null", "{}", "{\"step\": 1}", "\xff\xfe", "{{{{"}) {
    spill(file("manifest.json"), text);
    expect_named("manifest.json");
  }
}

/// Files that are well formed and agree with their hash, but not with each other.
TEST_F(Damage, ATensorFileOfAnotherCheckpointIsNamed) {
  SmallModel other(9);
  const fs::path elsewhere = save_small(other, dir() / "elsewhere", 100);
  fs::copy_file(elsewhere / "head.safetensors", file("head.safetensors"),
                fs::copy_options::overwrite_existing);
  expect_named("tensor \"head.weight\": its data have hash");
}

TEST_F(Damage, TensorsMissingExtraOrMisshapenInAFileAreNamed) {
  const auto write = [&](std::vector<FileTensor> tensors, std::size_t bytes) {
    SafetensorsWriter writer(file("embedding.safetensors"), std::move(tensors), {},
                             RangeWriter::Open::kCreate);
    writer.write(0, test::as_bytes(std::string(bytes, 'a')));
    writer.sync_and_close();
  };
  write({{"embedding.weigh", FileDType::kF32, {37, 16}}}, 2368);
  expect_named("tensor \"embedding.weight\" of the manifest is missing");
  write({{"embedding.weight", FileDType::kF32, {16, 37}}}, 2368);
  expect_named("file [16, 37] F32 at byte 0, manifest [37, 16] F32 at byte 0");
  write({{"embedding.weight", FileDType::kF32, {37, 16}}, {"more", FileDType::kU8, {1}}}, 2369);
  expect_named("tensor \"more\" is not in the manifest");
}

TEST_F(Damage, AHeaderWrittenByAnotherProgramIsNamed) {
  SafetensorsWriter writer(file("embedding.safetensors"),
                           {{"embedding.weight", FileDType::kF32, {37, 16}}}, {{"by", "me"}},
                           RangeWriter::Open::kCreate);
  writer.write(0, test::as_bytes(model_.bytes_of("embedding.weight")));
  writer.sync_and_close();
  expect_named("the header is not the one that was written");
}

TEST_F(Damage, AStrayTensorFileIsNamed) {
  fs::copy_file(file("head.safetensors"), file("tail.safetensors"));
  EXPECT_THAT(refusal(), HasSubstr("tail.safetensors: the manifest knows no such file"));
  EXPECT_THAT(differences(), HasSubstr("tail.safetensors: not part of the checkpoint"));
  fs::remove(file("tail.safetensors"));
  spill(file("notes.txt"), "mine");
  EXPECT_EQ(refusal(), "");
  EXPECT_THAT(differences(), HasSubstr("notes.txt: not part of the checkpoint"));
}

TEST_F(Damage, AFolderWhereAFileShouldBeIsNamed) {
  fs::remove(file("head.safetensors"));
  fs::create_directory(file("head.safetensors"));
  expect_named("head.safetensors");
}

/// A writer that broke law 9 would leave hashes that agree; the values are looked at all the same.
TEST_F(Damage, NanUnderAGoodHashIsNamed) {
  SmallModel other(1);
  Manifest manifest = read_manifest(file("manifest.json"));
  std::string bytes = slurp(file("layer-00.safetensors"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - 4, &nan, 4);
  spill(file("layer-00.safetensors"), bytes);
  const std::string message = differences();
  const std::size_t at = message.find("have hash ");
  ASSERT_NE(at, std::string::npos);
  for (ManifestTensor& tensor : manifest.tensors) {
    if (tensor.name == "layers.0.norm.weight") {
      tensor.hash = std::stoull(message.substr(at + 10, 16), nullptr, 16);
    }
  }
  spill(file("manifest.json"), to_json(manifest));
  expect_named("tensor \"layers.0.norm.weight\": NaN or Inf at element 0");
}

TEST_F(Damage, WithoutAWholeOneBesideItTheMessageSaysSo) {
  fs::remove(file("head.safetensors"));
  const fs::path other = dir() / "step-00000050";
  for (const char* name : {"manifest.json", "embedding.safetensors"}) {
    const std::string bytes = slurp(other / name);
    spill(other / name, bytes.substr(0, bytes.size() - 1));
    EXPECT_THAT(refusal(), HasSubstr("no checkpoint beside it looks whole"));
    fs::remove(other / name);
    EXPECT_THAT(refusal(), HasSubstr("no checkpoint beside it looks whole"));
    spill(other / name, bytes);
  }
  EXPECT_THAT(refusal(), HasSubstr("looks whole is " + other.string()));
}

/// Ranks wait for each other meanwhile: a whole checkpoint cannot be read there.
TEST_F(Damage, TheWayOutIsFoundWithoutReadingTensors) {
  const fs::path other = dir() / "step-00000050" / "head.safetensors";
  std::string bytes = slurp(other);
  bytes.back() = static_cast<char>(~bytes.back());
  spill(other, bytes);
  fs::remove(file("head.safetensors"));
  EXPECT_THAT(refusal(), HasSubstr("that looks whole is " + other.parent_path().string()));
}

TEST_F(Damage, AnUnfinishedSaveIsNotOffered) {
  fs::rename(dir() / "step-00000050", dir() / "step-00000050.part");
  fs::remove(file("head.safetensors"));
  EXPECT_THAT(refusal(), HasSubstr("no checkpoint beside it looks whole"));
}

}  // namespace
}  // namespace ulmus::checkpoint
