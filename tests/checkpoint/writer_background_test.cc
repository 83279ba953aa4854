#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>
#include <thread>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "tests/support/message_of.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/verify.h"
#include "ulmus/checkpoint/writer.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::slurp;
using test::small_facts;
using test::SmallModel;
using ::testing::HasSubstr;

/// Saves behind the caller into a folder of its own.
class BackgroundSave : public testing::Test {
 protected:
  void start(CheckpointWriter& writer, std::int64_t step) {
    writer.start(folder_.path(), small_facts(step), model_.tensors, {}, *model_.device,
                 model_.ranks());
  }
  std::int64_t staging_bytes() const { return CheckpointWriter::snapshot_bytes(model_.tensors); }
  /// Bytes of every tensor file and the manifest.
  std::string bytes_of(std::int64_t step) const {
    std::string bytes;
    for (const char* name : {"embedding.safetensors", "head.safetensors", "layer-00.safetensors",
                             "layer-00.optimizer.safetensors", "manifest.json"})
      bytes += slurp(folder_.path() / folder_name(step) / name);
    return bytes;
  }
  /// Hooks that stand still at a point until they are let go.
  SaveHooks hold_at(SavePoint point) {
    SaveHooks hooks;
    hooks.at = [gate = gate_, point](SavePoint now) {
      if (now == point) gate.wait();
    };
    return hooks;
  }
  static void wait_until_idle(const CheckpointWriter& writer) {
    while (writer.is_busy())
      std::this_thread::yield();
  }

  test::TempFolder folder_;
  SmallModel model_{1};
  std::promise<void> let_go_;
  std::shared_future<void> gate_ = let_go_.get_future().share();
};

TEST_F(BackgroundSave, HoldsTheValuesOfTheMomentItBegan) {
  CheckpointWriter at_once(test::kStagingBytes);
  at_once.save(folder_.path(), small_facts(1), model_.tensors, {}, *model_.device, model_.ranks());
  const std::string expected = bytes_of(1);
  fs::remove_all(folder_.path() / folder_name(1));
  CheckpointWriter writer(staging_bytes(), hold_at(SavePoint::kFileWritten));
  start(writer, 1);
  model_.fill(2);
  let_go_.set_value();
  EXPECT_EQ(writer.finish(model_.ranks()).path, folder_.path() / folder_name(1));
  EXPECT_EQ(bytes_of(1), expected);
}

TEST_F(BackgroundSave, IsTakenOnInTwoHalvesWithoutWaiting) {
  CheckpointWriter writer(staging_bytes(), hold_at(SavePoint::kManifestWritten));
  EXPECT_FALSE(writer.is_pending());
  start(writer, 1);
  EXPECT_TRUE(writer.is_pending());
  wait_until_idle(writer);
  EXPECT_FALSE(writer.advance(model_.ranks()));
  EXPECT_TRUE(writer.is_busy());
  EXPECT_TRUE(list(folder_.path()).empty());
  let_go_.set_value();
  wait_until_idle(writer);
  EXPECT_EQ(list(folder_.path()).size(), 1U);
  EXPECT_TRUE(writer.advance(model_.ranks()));
  EXPECT_FALSE(writer.is_pending());
  EXPECT_TRUE(verify(folder_.path() / folder_name(1)).is_good());
}

TEST_F(BackgroundSave, OneAtATimeAndOnlyWithRoomForTheCopy) {
  CheckpointWriter small(test::kStagingBytes);
  EXPECT_THAT(message_of<Error>([&] { start(small, 1); }), HasSubstr("a snapshot of "));
  CheckpointWriter writer(staging_bytes());
  start(writer, 1);
  EXPECT_THAT(message_of<Error>([&] { start(writer, 2); }), HasSubstr("a save is pending"));
  writer.finish(model_.ranks());
  EXPECT_THAT(message_of<Error>([&] { writer.advance(model_.ranks()); }),
              HasSubstr("no save is pending"));
}

TEST_F(BackgroundSave, NanIsNamedWhenTheSaveIsTakenOn) {
  CheckpointWriter writer(staging_bytes());
  start(writer, 1);
  writer.finish(model_.ranks());
  std::vector<double> values(15'000, 1.0);
  values[7] = std::numeric_limits<double>::quiet_NaN();
  model_.write(model_.ref("layers.0.moe.experts.up").view, values);
  start(writer, 2);
  EXPECT_THAT(message_of<Error>([&] { writer.finish(model_.ranks()); }),
              HasSubstr("layers.0.moe.experts.up holds NaN or Inf at element 7"));
  EXPECT_FALSE(writer.is_pending());
  EXPECT_EQ(list(folder_.path()).size(), 1U);
  EXPECT_FALSE(fs::exists(folder_.path() / "step-00000002.part"));
}

TEST_F(BackgroundSave, KeepsTheNewest) {
  CheckpointWriter writer(staging_bytes(), {}, 2);
  for (std::int64_t step = 1; step <= 4; ++step) {
    start(writer, step);
    writer.finish(model_.ranks());
  }
  const std::vector<Entry> entries = list(folder_.path());
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].step, 3);
}

TEST_F(BackgroundSave, AWriterThatEndsBeforeItsSaveLeavesTheOneBefore) {
  {
    CheckpointWriter writer(staging_bytes());
    start(writer, 1);
    writer.finish(model_.ranks());
    start(writer, 2);
  }
  EXPECT_EQ(newest(folder_.path())->step, 1);
  CheckpointWriter writer(staging_bytes());
  start(writer, 3);
  writer.finish(model_.ranks());
  EXPECT_FALSE(fs::exists(folder_.path() / "step-00000002.part")) << "leftovers go";
}

}  // namespace
}  // namespace ulmus::checkpoint
