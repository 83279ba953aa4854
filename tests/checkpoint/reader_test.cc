#include "ulmus/checkpoint/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::save_small;
using test::small_facts;
using test::SmallModel;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Load, RoundTripsBitForBit) {
  const test::TempFolder folder;
  SmallModel saved(1);
  std::vector<double> odd = {-0.0};  // NOLINT: one element, kept as it is
  saved.write(saved.ref("layers.0.norm.weight").view, odd);
  const fs::path path = save_small(saved, folder.path(), 100);

  SmallModel loaded(2);
  const LoadReport report = load(path, loaded.tensors, *loaded.device, loaded.ranks());
  EXPECT_EQ(report.tensors_checked, 7);
  EXPECT_EQ(report.tensors_left_out, 0);
  for (const TensorRef& tensor : saved.tensors) {
    EXPECT_EQ(loaded.bytes_of(tensor.name), saved.bytes_of(tensor.name)) << tensor.name;
  }
  Manifest facts = report.manifest;
  facts.tensors.clear();
  EXPECT_EQ(facts, small_facts(100));

  // Loading and saving again gives the same files.
  const test::TempFolder second;
  const fs::path again = save_small(loaded, second.path(), 100);
  for (const auto& entry : fs::directory_iterator(path)) {
    EXPECT_EQ(test::slurp(entry.path()), test::slurp(again / entry.path().filename()));
  }
  EXPECT_EQ(loaded.device->transfers().host_reads, 0);
}

TEST(Load, LeavesTheMomentsOutWhenAsked) {
  const test::TempFolder folder;
  SmallModel saved(1);
  const fs::path path = save_small(saved, folder.path(), 100);
  SmallModel loaded(2);
  const std::string moment = loaded.bytes_of("layers.0.moe.experts.up.exp_avg");
  std::vector<TensorRef> weights;
  for (const TensorRef& tensor : loaded.tensors) {
    if (tensor.name.find(".exp_avg") == std::string::npos) weights.push_back(tensor);
  }
  EXPECT_THAT(message_of<InputError>([&] { load(path, weights, *loaded.device, loaded.ranks()); }),
              HasSubstr("extra \"layers.0.moe.experts.up.exp_avg\""));
  const LoadReport report =
      load(path, weights, *loaded.device, loaded.ranks(),
           {{std::string(kFirstMomentSuffix), std::string(kSecondMomentSuffix)}});
  EXPECT_EQ(report.tensors_checked, 5);
  EXPECT_EQ(report.tensors_left_out, 2);
  EXPECT_EQ(loaded.bytes_of("head.weight"), saved.bytes_of("head.weight"));
  EXPECT_EQ(loaded.bytes_of("layers.0.moe.experts.up.exp_avg"), moment);
}

TEST(Load, ListsEveryDifferenceToTheModel) {
  const test::TempFolder folder;
  SmallModel saved(1);
  const fs::path path = save_small(saved, folder.path(), 100);
  SmallModel model(2);
  const std::string before = model.bytes_of("embedding.weight");
  model.ref("head.weight").name = "heat.weight";
  const auto replace = [&](const std::string& name, TensorView view, std::int64_t slice) {
    TensorRef& ref = model.ref(name);
    ref = TensorRef::whole(ref.name, ref.file_group, view, slice);
  };
  replace("layers.0.norm.weight", model.allocate(DType::kF32, {2}), 2);
  replace("layers.0.moe.experts.up", model.ref("layers.0.moe.experts.up").view, 15'000);
  replace("layers.0.nothing", model.allocate(DType::kF64, {0, 4}), 0);
  const std::string message =
      message_of<InputError>([&] { load(path, model.tensors, *model.device, model.ranks()); });
  EXPECT_THAT(message, HasSubstr("5 of 7 tensors differ"));
  EXPECT_THAT(message, HasSubstr("missing \"heat.weight\""));
  EXPECT_THAT(message, HasSubstr("nearest: \"head.weight\""));
  EXPECT_THAT(message, HasSubstr("extra \"head.weight\""));
  EXPECT_THAT(message, HasSubstr("\"layers.0.norm.weight\": checkpoint [1] f32, model [2] f32"));
  EXPECT_THAT(message, HasSubstr("in slices of 5000 elements, model 15000"));
  EXPECT_THAT(message, HasSubstr("checkpoint [0, 4] f32, model [0, 4] f64"));
  EXPECT_THAT(message, Not(HasSubstr("damaged")));
  EXPECT_EQ(model.bytes_of("embedding.weight"), before) << "nothing is copied before the check";

  model.ref("heat.weight").name = "embedding.weight";
  EXPECT_THAT(message_of<Error>([&] { load(path, model.tensors, *model.device, model.ranks()); }),
              HasSubstr("given twice"));
}

TEST(Load, ManyDifferencesAreCounted) {
  const test::TempFolder folder;
  SmallModel saved(1);
  const fs::path path = save_small(saved, folder.path(), 100);
  SmallModel model(2);
  const TensorView view = model.allocate(DType::kF32, {1});
  for (int i = 0; i < 60; ++i)
    model.tensors.push_back(TensorRef::whole(concat("more.", i), "more", view, 1));
  EXPECT_THAT(
      message_of<InputError>([&] { load(path, model.tensors, *model.device, model.ranks()); }),
      HasSubstr("and 20 more"));
}

TEST(Load, WrongFoldersAreNamed) {
  const test::TempFolder folder;
  SmallModel model(1);
  const auto refusal = [&](const fs::path& path) {
    return message_of<InputError>([&] { load(path, model.tensors, *model.device, model.ranks()); });
  };
  EXPECT_THAT(refusal(folder.path() / "none"), HasSubstr("no such folder"));
  save_small(model, folder.path() / "checkpoints", 100);
  const std::string message = refusal(folder.path() / "checkpoints");
  EXPECT_THAT(message, HasSubstr("has no manifest.json"));
  EXPECT_THAT(message, HasSubstr("did you mean"));
  EXPECT_THAT(message, HasSubstr("step-00000100"));
  EXPECT_THROW(verify(folder.path() / "none"), InputError);
  EXPECT_THROW(show(folder.path() / "none"), InputError);
}

TEST(Verify, CountsWhatItLookedAt) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_small(model, folder.path(), 100);
  for (const fs::path& spelling : {path, path / "", folder.path() / "x" / ".." / path.filename()}) {
    fs::create_directories(folder.path() / "x");
    const VerifyReport report = verify(spelling);
    EXPECT_THAT(report.differences, ::testing::IsEmpty());
    EXPECT_EQ(report.files_checked, 6);
    EXPECT_EQ(report.tensors_checked, 7);
    std::int64_t bytes = 0;
    for (const TensorRef& tensor : model.tensors)
      bytes += tensor.view.size_bytes();
    EXPECT_EQ(report.bytes, bytes);
  }
  fs::rename(path, folder.path() / "best");
  EXPECT_TRUE(verify(folder.path() / "best").is_good());
  fs::rename(folder.path() / "best", folder.path() / "step-00000200");
  const VerifyReport moved = verify(folder.path() / "step-00000200");
  ASSERT_EQ(moved.differences.size(), 1);
  EXPECT_THAT(moved.differences[0], HasSubstr("the manifest is of step 100"));
}

TEST(Show, TellsTheFacts) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_small(model, folder.path(), 100);
  const ShowReport report = show(path);
  EXPECT_EQ(report.manifest.step, 100);
  EXPECT_EQ(report.manifest.tokens, 100'000);
  EXPECT_EQ(report.info.at("host"), "here");
  ASSERT_EQ(report.files.size(), 4);
  EXPECT_EQ(report.files[2].name, "layer-00.optimizer.safetensors");
  EXPECT_EQ(report.files[2].tensors, 2);
  EXPECT_EQ(report.files[2].bytes,
            static_cast<std::int64_t>(fs::file_size(path / report.files[2].name)));
  EXPECT_EQ(report.elements, 37 * 16 + 3 * 15'000 + 1 + 4097);
  fs::remove(path / "info.json");
  EXPECT_TRUE(show(path).info.empty());
}

}  // namespace
}  // namespace ulmus::checkpoint
