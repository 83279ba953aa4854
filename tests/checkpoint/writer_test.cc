#include "ulmus/checkpoint/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/verify.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::kStagingBytes;
using test::message_of;
using test::slurp;
using test::small_facts;
using test::SmallModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// All files of a folder, name to bytes.
std::map<std::string, std::string> contents(const fs::path& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    files[entry.path().filename().string()] = slurp(entry.path());
  }
  return files;
}

/// Which thread writes.
enum class Way : std::uint8_t { kAtOnce, kBehind };
constexpr Way kWays[] = {Way::kAtOnce, Way::kBehind};

SaveReport save_with(SmallModel& model, const fs::path& dir, std::int64_t step, SaveHooks hooks,
                     std::int64_t staging_bytes = kStagingBytes, Way way = Way::kAtOnce) {
  const Info info = {{"host", "here"}};
  if (way == Way::kBehind) staging_bytes = CheckpointWriter::snapshot_bytes(model.tensors);
  CheckpointWriter writer(staging_bytes, std::move(hooks));
  if (way == Way::kAtOnce) {
    return writer.save(dir, small_facts(step), model.tensors, info, *model.device, model.ranks());
  }
  writer.start(dir, small_facts(step), model.tensors, info, *model.device, model.ranks());
  return writer.finish(model.ranks());
}

TEST(CheckpointWriter, SavesTheSameBytesWhateverTheOrderAndTheStaging) {
  const test::TempFolder folder;
  SmallModel model(1);
  const SaveReport report = save_with(model, folder.path() / "a", 100, {});
  EXPECT_EQ(report.path, folder.path() / "a" / "step-00000100");
  EXPECT_EQ(report.tensors, 7);
  const auto first = contents(report.path);
  EXPECT_EQ(first.size(), 6);
  std::int64_t bytes = 0;
  for (const auto& [name, text] : first)
    bytes += static_cast<std::int64_t>(text.size());
  EXPECT_EQ(report.bytes, bytes);

  std::reverse(model.tensors.begin(), model.tensors.end());
  const SaveReport again = save_with(model, folder.path() / "b", 100, {}, 32 << 10);
  EXPECT_EQ(contents(again.path), first);
  const SaveReport big = save_with(model, folder.path() / "c", 100, {}, 1 << 20);
  EXPECT_EQ(contents(big.path), first);

  model.fill(2);
  EXPECT_NE(contents(save_with(model, folder.path() / "d", 100, {}).path), first);
}

TEST(FileGroup, FollowsFromTheName) {
  EXPECT_EQ(file_group_of("embedding.weight"), "embedding");
  EXPECT_EQ(file_group_of("final_norm.weight"), "final_norm");
  EXPECT_EQ(file_group_of("layers.3.moe.router.weight"), "layer-03");
  EXPECT_EQ(file_group_of("layers.12.moe.router.weight"), "layer-12");
  EXPECT_EQ(file_group_of("layers.120.norm.weight"), "layer-120");
  EXPECT_EQ(file_group_of("layers.3.moe.router.weight.exp_avg"), "layer-03.optimizer");
  EXPECT_EQ(file_group_of("head.weight.exp_avg_sq"), "head.optimizer");
}

/// Reads a safetensors file by the text of the format alone, with nothing of the reader's code.
TEST(CheckpointWriter, AForeignReaderFindsTheTensors) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_with(model, folder.path(), 100, {}).path;
  const nlohmann::json manifest = nlohmann::json::parse(slurp(path / "manifest.json"));
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string bytes = slurp(entry.path());
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    EXPECT_EQ(length % 8, 0);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    for (const auto& [name, tensor] : header.items()) {
      const std::uint64_t begin = tensor["data_offsets"][0];
      const std::uint64_t end = tensor["data_offsets"][1];
      EXPECT_EQ(bytes.substr(8 + length + begin, end - begin), model.bytes_of(name)) << name;
      const auto dims = model.ref(name).view.shape().dims();
      EXPECT_EQ(tensor["shape"], nlohmann::json(std::vector(dims.begin(), dims.end())));
      ++found;
    }
  }
  EXPECT_EQ(found, model.tensors.size());
  ASSERT_EQ(manifest["tensors"].size(), model.tensors.size());
  EXPECT_EQ(manifest["step"], 100);
}

TEST(CheckpointWriter, RefusesNanAndInf) {
  const test::TempFolder folder;
  SmallModel model(1);
  save_with(model, folder.path(), 1, {});
  std::vector<double> values(15'000, 1.0);
  values[14'999] = std::numeric_limits<double>::quiet_NaN();
  model.write(model.ref("layers.0.moe.experts.up").view, values);
  EXPECT_THAT(message_of<Error>([&] { save_with(model, folder.path(), 2, {}); }),
              HasSubstr("layers.0.moe.experts.up holds NaN or Inf at element 14999 of [3, 50"));
  EXPECT_EQ(list(folder.path()).size(), 1);
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000002.part"));
  EXPECT_TRUE(verify(newest(folder.path())->path).is_good());

  model.fill(1);
  Manifest facts = small_facts(2);
  facts.doubles["optimizer.gate"] = {std::numeric_limits<double>::infinity()};
  CheckpointWriter writer(kStagingBytes);
  EXPECT_THAT(message_of<Error>([&] {
                writer.save(folder.path(), facts, model.tensors, {}, *model.device, model.ranks());
              }),
              HasSubstr("optimizer.gate holds inf"));
  EXPECT_EQ(list(folder.path()).size(), 1);
}

TEST(CheckpointWriter, RefusesTensorsItCannotSave) {
  const test::TempFolder folder;
  SmallModel model(1);
  const auto refusal = [&](TensorRef tensor) {
    std::vector<TensorRef> tensors = model.tensors;
    tensors.push_back(std::move(tensor));
    CheckpointWriter writer(kStagingBytes);
    return message_of<Error>([&] {
      writer.save(folder.path(), small_facts(1), tensors, {}, *model.device, model.ranks());
    });
  };
  const TensorView view = model.allocate(DType::kF32, {4, 4});
  const auto whole = [](const char* name, const char* group, TensorView tensor,
                        std::int64_t slice) {
    return TensorRef::whole(name, group, tensor, slice);
  };
  EXPECT_THAT(refusal(whole("head.weight", "head", view, 16)), HasSubstr("given twice"));
  EXPECT_THAT(refusal(whole("", "head", view, 16)), HasSubstr("a name is missing"));
  EXPECT_THAT(refusal(whole("x", "../head", view, 16)), HasSubstr("file name"));
  EXPECT_THAT(refusal({"x", "head", Shape{4, 4}, BlockRange{16, 5, 0, 1}, view}),
              HasSubstr("16 elements in slices of 5"));
  EXPECT_THAT(refusal({"x", "head", Shape{4, 4}, BlockRange{16, 16, 0, 0}, view}),
              HasSubstr("16 elements for blocks of 0"));
  EXPECT_THAT(refusal(whole("x", "head", view.narrow(1, 0, 2), 8)), HasSubstr("not contiguous"));
  EXPECT_THAT(refusal(whole("x", "head", model.allocate(DType::kI32, {4}), 4)), HasSubstr("i32"));
  EXPECT_THROW(CheckpointWriter(1000), Error);
  CheckpointWriter writer(kStagingBytes);
  EXPECT_THAT(message_of<Error>([&] {
                writer.save(folder.path(), small_facts(1), {}, {}, *model.device, model.ranks());
              }),
              HasSubstr("without tensors"));
  const auto meta = make_meta_device(1);
  EXPECT_THAT(message_of<Error>([&] {
                writer.save(folder.path(), small_facts(1), model.tensors, {}, *meta, model.ranks());
              }),
              HasSubstr("meta"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(CheckpointWriter, ChecksFreeSpaceBeforeItWrites) {
  const test::TempFolder folder;
  SmallModel model(1);
  const std::int64_t bytes = save_with(model, folder.path(), 1, {}).bytes;
  SaveHooks hooks;
  hooks.at = [](SavePoint) { FAIL() << "something was written"; };
  hooks.free_bytes = [&](const fs::path&) { return bytes; };
  const std::string message =
      message_of<Error>([&] { save_with(model, folder.path(), 2, std::move(hooks)); });
  EXPECT_THAT(message, HasSubstr(concat(bytes, " are free")));
  EXPECT_THAT(message, HasSubstr("bytes are needed"));
  EXPECT_TRUE(verify(newest(folder.path())->path).is_good());
}

TEST(CheckpointWriter, RoomIsExpectedBeforeAnythingIsWritten) {
  const test::TempFolder folder;
  SmallModel model(1);
  const std::int64_t bytes = save_with(model, folder.path() / "a", 1, {}).bytes;
  const fs::path target = folder.path() / "b" / "checkpoints";
  std::int64_t available = bytes;
  SaveHooks hooks;
  hooks.free_bytes = [&](const fs::path& where) {
    EXPECT_EQ(where, folder.path());
    return available;
  };
  const CheckpointWriter writer(1 << 20, std::move(hooks));
  const auto expect_room = [&] {
    writer.expect_room(target, small_facts(1), model.tensors, {}, model.ranks());
  };
  EXPECT_THAT(message_of<InputError>(expect_room),
              AllOf(HasSubstr(target.string()), HasSubstr(concat(bytes, " are free there"))));
  available = 2 * bytes + (std::int64_t{1} << 24U);
  expect_room();
  EXPECT_FALSE(fs::exists(target));
}

TEST(CheckpointWriter, ADiskThatFillsUpLeavesThePreviousCheckpoint) {
  const test::TempFolder folder;
  const fs::path disk = folder.path() / "disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=400k") != 0) {
    GTEST_SKIP() << "no permission to mount a small disk: " << std::strerror(errno);
  }
  SmallModel model(1);
  SaveHooks hooks;
  hooks.free_bytes = [](const fs::path&) { return std::numeric_limits<std::int64_t>::max(); };
  save_with(model, disk / "checkpoints", 1, hooks);
  const std::string real =
      message_of<Error>([&] { save_with(model, disk / "checkpoints", 2, {}); });
  const std::string full =
      message_of<Error>([&] { save_with(model, disk / "checkpoints", 2, hooks); });
  const auto entries = list(disk / "checkpoints");
  const bool is_good = entries.size() == 1 && verify(entries[0].path).is_good();
  const bool has_part = fs::exists(disk / "checkpoints" / "step-00000002.part");
  ASSERT_EQ(::umount(disk.c_str()), 0);
  EXPECT_THAT(real, HasSubstr("bytes are needed"));
  EXPECT_THAT(full, HasSubstr("No space left on device"));
  EXPECT_TRUE(is_good);
  EXPECT_FALSE(has_part);
}

TEST(CheckpointWriter, AFolderThatCannotBeWrittenIsNamed) {
  const test::TempFolder folder;
  SmallModel model(1);
  test::spill(folder.path() / "file", "x");
  EXPECT_THAT(message_of<Error>([&] { save_with(model, folder.path() / "file", 1, {}); }),
              HasSubstr((folder.path() / "file").string()));
}

class CheckpointWriterWays : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(All, CheckpointWriterWays, testing::ValuesIn(kWays),
                         [](const testing::TestParamInfo<Way>& way) {
                           return way.param == Way::kAtOnce ? "AtOnce" : "Behind";
                         });

TEST_P(CheckpointWriterWays, AFaultAnywhereLeavesNothingBehind) {
  const test::TempFolder folder;
  SmallModel model(1);
  save_with(model, folder.path(), 1, {});
  const auto before = contents(folder.path() / "step-00000001");
  for (int fault_at = 0;; ++fault_at) {
    int calls = 0;
    bool was_renamed = false;
    SaveHooks hooks;
    hooks.at = [&](SavePoint point) {
      was_renamed = point == SavePoint::kRenamed;
      if (calls++ == fault_at) fail("injected");
    };
    const std::string message = message_of<Error>(
        [&] { save_with(model, folder.path(), 2, std::move(hooks), kStagingBytes, GetParam()); });
    EXPECT_EQ(list(folder.path()).size(), was_renamed ? 2 : 1);
    EXPECT_FALSE(fs::exists(folder.path() / "step-00000002.part"));
    EXPECT_EQ(contents(folder.path() / "step-00000001"), before);
    if (message.empty()) {
      EXPECT_GT(fault_at, 10);
      break;
    }
  }
}

/// Saves step 2 in a child that dies by SIGKILL at its `kill_at`-th save point. Returns whether it
/// was still alive at the end.
bool save_and_die(SmallModel& model, const fs::path& dir, int kill_at, Way way) {
  const pid_t child = ::fork();
  if (child == 0) {
    int calls = 0;
    SaveHooks hooks;
    hooks.at = [&](SavePoint) {
      if (calls++ == kill_at) ::raise(SIGKILL);
    };
    try {
      save_with(model, dir, 2, std::move(hooks), kStagingBytes, way);
    } catch (const Error&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return true;
  }
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  return false;
}

TEST_P(CheckpointWriterWays, AKillAtAnyMomentLeavesThePreviousOrTheNewOne) {
  const test::TempFolder folder;
  SmallModel model(1);
  save_with(model, folder.path(), 1, {});
  const auto before = contents(folder.path() / "step-00000001");
  bool left_a_part = false;
  for (int kill_at = 0;; ++kill_at) {
    const bool survived = save_and_die(model, folder.path(), kill_at, GetParam());
    left_a_part = left_a_part || fs::exists(folder.path() / "step-00000002.part");
    EXPECT_EQ(contents(folder.path() / "step-00000001"), before);
    for (const Entry& entry : list(folder.path())) {
      EXPECT_TRUE(verify(entry.path).is_good()) << entry.path << " killed at " << kill_at;
    }
    if (survived) break;
  }
  EXPECT_TRUE(left_a_part);
  EXPECT_EQ(list(folder.path()).size(), 2);
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000002.part"));
}

TEST(CheckpointWriter, LeftoversOfACrashAreGoneBeforeItWrites) {
  const test::TempFolder folder;
  SmallModel model(1);
  for (const char* part : {"step-00000001.part", "step-00000007.part"}) {
    fs::create_directories(folder.path() / part);
    test::spill(folder.path() / part / "old.safetensors", "half of it");
  }
  SaveHooks hooks;
  hooks.free_bytes = [](const fs::path& dir) {
    EXPECT_TRUE(fs::is_empty(dir)) << "its space counts as free";
    return std::numeric_limits<std::int64_t>::max();
  };
  EXPECT_TRUE(verify(save_with(model, folder.path(), 1, std::move(hooks)).path).is_good());
}

/// A file stands where step 1 would have to go.
TEST_P(CheckpointWriterWays, WhatCannotBeRemovedIsReportedAndTheSaveIsDone) {
  const test::TempFolder folder;
  SmallModel model(1);
  save_with(model, folder.path(), 1, {});
  test::spill(folder.path() / "step-00000001.part", "in the way");
  CheckpointWriter writer(CheckpointWriter::snapshot_bytes(model.tensors), {}, 1);
  for (const std::int64_t step : {2, 3}) {
    const auto save = [&] {
      if (GetParam() == Way::kAtOnce) {
        return writer.save(folder.path(), small_facts(step), model.tensors, {}, *model.device,
                           model.ranks());
      }
      writer.start(folder.path(), small_facts(step), model.tensors, {}, *model.device,
                   model.ranks());
      return writer.finish(model.ranks());
    };
    const SaveReport report = save();
    ASSERT_EQ(report.not_removed.size(), 1U);
    EXPECT_THAT(report.not_removed[0], HasSubstr((folder.path() / "step-00000001").string()));
    EXPECT_TRUE(verify(report.path).is_good());
  }
  EXPECT_EQ(list(folder.path()).size(), 2U) << "the rest went";
}

TEST(CheckpointWriter, ALeftoverThatStaysIsReportedUnlessItIsInTheWay) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path held = folder.path() / "step-00000007.part" / "held";
  fs::create_directories(held);
  if (::mount("tmpfs", held.c_str(), "tmpfs", 0, "size=4k") != 0) {
    GTEST_SKIP() << "no permission to mount what cannot be removed: " << std::strerror(errno);
  }
  const SaveReport report = save_with(model, folder.path(), 1, {});
  const std::string refusal = message_of<Error>([&] { save_with(model, folder.path(), 7, {}); });
  ASSERT_EQ(::umount(held.c_str()), 0);
  ASSERT_EQ(report.not_removed.size(), 1U);
  EXPECT_THAT(report.not_removed[0], HasSubstr("cannot remove " + held.parent_path().string()));
  EXPECT_TRUE(verify(report.path).is_good());
  EXPECT_THAT(refusal, HasSubstr("step-00000007.part is in the way; cannot remove"));
}

TEST(CheckpointWriter, ReplacesACheckpointOfTheSameStep) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_with(model, folder.path(), 1, {}).path;
  const auto good = contents(path);
  test::spill(path / "manifest.json", "damaged");
  EXPECT_FALSE(verify(path).is_good());
  save_with(model, folder.path(), 1, {});
  EXPECT_EQ(contents(path), good);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(CheckpointWriter, StagesThroughTheDevicesCopies) {
  const test::TempFolder folder;
  SmallModel model(1);
  model.device->reset_transfers();
  save_with(model, folder.path(), 1, {});
  std::int64_t bytes = 0;
  for (const TensorRef& tensor : model.tensors)
    bytes += tensor.view.size_bytes();
  EXPECT_EQ(model.device->transfers().staged_out_bytes, bytes);
  EXPECT_EQ(model.device->transfers().host_reads, 0);
}

}  // namespace
}  // namespace ulmus::checkpoint
