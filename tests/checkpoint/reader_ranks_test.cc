#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/checkpoint/reader.h"

/// Loads by several ranks, each of which owns a part of every tensor.
namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::save_small;
using test::SmallModel;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 3;
constexpr comm::World::Options kPatience = {.timeout = std::chrono::milliseconds(5000)};

class ReaderRanks : public testing::Test {
 protected:
  ReaderRanks() : saved_(1) {
    save_small(saved_, folder_.path(), 50);
    path_ = save_small(saved_, folder_.path(), 100);
  }
  /// What each rank says when it loads the checkpoint that it sees at its path.
  std::vector<std::string> refusals(const std::function<fs::path(int)>& path_of) {
    std::vector<std::string> thrown(kRanks);
    comm::run_thread_ranks(kRanks, kPatience, [&](comm::World& world) {
      SmallModel model(2);
      model.keep_part(world.rank(), world.size());
      thrown[static_cast<std::size_t>(world.rank())] = test::message_of<Error>(
          [&] { load(path_of(world.rank()), model.tensors, *model.device, world.all()); });
      world.all().barrier();  // they still talk to each other
    });
    return thrown;
  }
  /// The checkpoint as another machine sees it: a copy, which the test changes.
  fs::path seen_elsewhere() {
    const fs::path copy = elsewhere_.path() / path_.filename();
    fs::copy(path_, copy, fs::copy_options::recursive);
    return copy;
  }

  SmallModel saved_;
  fs::path path_;

 private:
  test::TempFolder folder_;
  test::TempFolder elsewhere_;
};

TEST_F(ReaderRanks, EachGetsItsPart) {
  comm::run_thread_ranks(kRanks, kPatience, [&](comm::World& world) {
    SmallModel model(2);
    model.keep_part(world.rank(), world.size());
    const LoadReport report = load(path_, model.tensors, *model.device, world.all());
    EXPECT_EQ(report.tensors_checked, 7);
    for (const TensorRef& tensor : model.tensors) {
      const auto element_bytes = static_cast<std::size_t>(size_of(tensor.view.dtype()));
      const auto first = static_cast<std::size_t>(tensor.blocks.element_begin());
      const auto count = static_cast<std::size_t>(tensor.view.numel());
      EXPECT_EQ(model.bytes_of(tensor.name),
                saved_.bytes_of(tensor.name).substr(first * element_bytes, count * element_bytes))
          << tensor.name;
    }
  });
}

TEST_F(ReaderRanks, AFileThatOneCannotReadIsNamedByAll) {
  const fs::path copy = seen_elsewhere();
  fs::remove(copy / "head.safetensors");
  for (const int blind : {0, 1, 2}) {
    const auto thrown = refusals([&](int rank) { return rank == blind ? copy : path_; });
    EXPECT_THAT(thrown, Each(AllOf(HasSubstr("damaged checkpoint " + copy.string()),
                                   HasSubstr("head.safetensors: No such file"))));
  }
  // Those that see the folder say what else is in it.
  EXPECT_THAT(refusals([&](int rank) { return rank == 1 ? copy : path_; })[0],
              HasSubstr("step-00000050"));
}

TEST_F(ReaderRanks, DamageInThePartOfOneIsNamedByAllWithTheWayOut) {
  std::string bytes = test::slurp(path_ / "layer-00.safetensors");
  bytes[bytes.size() - 100] ^= 1;
  test::spill(path_ / "layer-00.safetensors", bytes);
  EXPECT_THAT(refusals([&](int) { return path_; }),
              Each(AllOf(HasSubstr("damaged checkpoint"),
                         HasSubstr("tensor \"layers.0.moe.experts.up\": its data have hash"),
                         HasSubstr("looks whole is"), HasSubstr("step-00000050 (step 50;"))));
}

/// The message that counts is that of the first rank: no damage, so no way out.
TEST_F(ReaderRanks, AFolderThatTheFirstDoesNotSeeIsNoDamage) {
  const fs::path copy = seen_elsewhere();
  fs::remove(copy / "head.safetensors");
  fs::remove(copy / "manifest.json");
  const fs::path none = copy.parent_path() / "none";
  EXPECT_THAT(refusals([&](int rank) { return rank == 0 ? none : copy; }),
              Each(AllOf(HasSubstr("none: there is no such folder"), Not(HasSubstr("damaged")),
                         Not(HasSubstr("looks whole")))));
}

}  // namespace
}  // namespace ulmus::checkpoint
