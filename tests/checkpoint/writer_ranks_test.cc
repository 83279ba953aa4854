#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/verify.h"
#include "ulmus/checkpoint/writer.h"

/// Saves by several ranks, each of which owns a part of every tensor.
namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::small_facts;
using test::SmallModel;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
/// Ranks that wait for one that will not come fail by this, not by the test's own limit.
constexpr comm::World::Options kPatience = {.timeout = std::chrono::milliseconds(5000)};

enum class Way : std::uint8_t { kAtOnce, kBehind };

SaveReport save_part(CheckpointWriter& writer, SmallModel& model, const fs::path& dir,
                     std::int64_t step, Way way, comm::Communicator& ranks) {
  if (way == Way::kAtOnce) {
    return writer.save(dir, small_facts(step), model.tensors, {{"host", "here"}}, *model.device,
                       ranks);
  }
  writer.start(dir, small_facts(step), model.tensors, {{"host", "here"}}, *model.device, ranks);
  return writer.finish(ranks);
}

class WriterRanks : public testing::TestWithParam<Way> {
 protected:
  /// Saves a step by all ranks, of which `faulty` fails at a point. Returns what each rank threw.
  std::vector<std::string> save(std::int64_t step, int faulty, SavePoint fault) {
    std::vector<std::string> thrown(kRanks);
    comm::run_thread_ranks(kRanks, kPatience, [&](comm::World& world) {
      SmallModel model(1);
      model.keep_part(world.rank(), world.size());
      SaveHooks hooks;
      hooks.at = [&, is_faulty = world.rank() == faulty](SavePoint point) {
        if (is_faulty && point == fault) fail("injected at rank ", faulty);
      };
      CheckpointWriter writer(std::int64_t{1} << 20U, std::move(hooks));
      thrown[static_cast<std::size_t>(world.rank())] = test::message_of<Error>(
          [&] { save_part(writer, model, folder_.path(), step, GetParam(), world.all()); });
      EXPECT_FALSE(writer.is_pending());
      world.all().barrier();  // they still talk to each other
    });
    return thrown;
  }
  const fs::path& dir() const { return folder_.path(); }

 private:
  test::TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(All, WriterRanks, testing::Values(Way::kAtOnce, Way::kBehind),
                         [](const testing::TestParamInfo<Way>& way) {
                           return way.param == Way::kAtOnce ? "AtOnce" : "Behind";
                         });

TEST_P(WriterRanks, WriteTheBytesOfOne) {
  constexpr int kNobody = -1;
  EXPECT_THAT(save(7, kNobody, SavePoint::kRenamed), testing::Each(""));
  const test::TempFolder alone;
  SmallModel model(1);
  const fs::path expected = test::save_small(model, alone.path(), 7);
  const fs::path path = dir() / folder_name(7);
  for (const auto& entry : fs::directory_iterator(expected))
    EXPECT_EQ(test::slurp(path / entry.path().filename()), test::slurp(entry.path()))
        << entry.path();
  EXPECT_TRUE(verify(path).is_good());
}

TEST_P(WriterRanks, AFaultOfOneIsTheErrorOfAllAndLeavesNothing) {
  constexpr int kNobody = -1;
  save(1, kNobody, SavePoint::kRenamed);
  const std::string before = test::slurp(dir() / folder_name(1) / kManifestName);
  for (const int faulty : {0, 1, 2}) {
    for (const SavePoint fault :
         {SavePoint::kFolderMade, SavePoint::kPieceWritten, SavePoint::kFileWritten,
          SavePoint::kInfoWritten, SavePoint::kManifestWritten, SavePoint::kFolderFlushed}) {
      const bool is_of_first =
          fault != SavePoint::kPieceWritten && fault != SavePoint::kFileWritten;
      if (is_of_first && faulty != 0) continue;
      EXPECT_THAT(save(2, faulty, fault), testing::Each(concat("injected at rank ", faulty)))
          << static_cast<int>(fault);
      EXPECT_EQ(list(dir()).size(), 1U);
      EXPECT_FALSE(fs::exists(dir() / "step-00000002.part"));
    }
  }
  EXPECT_EQ(test::slurp(dir() / folder_name(1) / kManifestName), before);
  EXPECT_TRUE(verify(dir() / folder_name(1)).is_good());
}

TEST_P(WriterRanks, ANanOfOneIsNamedByAll) {
  std::vector<std::string> thrown(kRanks);
  comm::run_thread_ranks(kRanks, kPatience, [&](comm::World& world) {
    SmallModel model(1);
    if (world.rank() == 2) {
      model.write(model.ref("layers.0.moe.experts.up").view,
                  std::vector<double>(15'000, std::numeric_limits<double>::infinity()));
    }
    model.keep_part(world.rank(), world.size());
    CheckpointWriter writer(std::int64_t{1} << 20U);
    thrown[static_cast<std::size_t>(world.rank())] = test::message_of<Error>(
        [&] { save_part(writer, model, dir(), 2, GetParam(), world.all()); });
  });
  // Three experts of two blocks each: the last rank owns those of the last one.
  EXPECT_THAT(thrown, testing::Each(HasSubstr("layers.0.moe.experts.up holds NaN or Inf at element "
                                              "10000 of [3, 50, 100]")));
  EXPECT_TRUE(list(dir()).empty());
}

}  // namespace
}  // namespace ulmus::checkpoint
