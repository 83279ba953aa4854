#include "ulmus/checkpoint/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/checkpoint/verify.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::save_small;
using test::small_facts;
using test::SmallModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
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

/// What load says of a folder.
std::string refusal(const fs::path& path) {
  SmallModel model(1);
  return message_of<InputError>([&] { load(path, model.tensors, *model.device, model.ranks()); });
}

TEST(Load, WrongFoldersAreNamedAndAreNoDamage) {
  const test::TempFolder folder;
  SmallModel model(1);
  EXPECT_THAT(refusal(folder.path() / "none"), HasSubstr("none: there is no such folder"));
  const fs::path path = save_small(model, folder.path() / "run" / "checkpoints", 100);
  for (const char* name : {"run/checkpoints", "run"}) {
    const std::string message = refusal(folder.path() / name);
    EXPECT_THAT(message,
                HasSubstr("has no manifest.json: not a checkpoint; did you mean " + path.string()));
    EXPECT_THAT(message, Not(HasSubstr("damaged")));
  }
  fs::create_directory(folder.path() / "empty");
  EXPECT_THAT(refusal(folder.path() / "empty"), HasSubstr("not a checkpoint, or a damaged one"));
  test::spill(folder.path() / "file", "");
  EXPECT_THAT(refusal(folder.path() / "file"), HasSubstr("there is no such folder"));
}

/// The same rule for load and verify.
TEST(Load, AFolderNamedAfterAnotherStepIsRefusedAndIsNoDamage) {
  const test::TempFolder folder;
  SmallModel model(1);
  fs::path path = save_small(model, folder.path(), 100);
  save_small(model, folder.path(), 50);
  for (const char* name : {"step-100", "step-00000200", "step-00000100.old"}) {
    const fs::path other = folder.path() / name;
    fs::rename(path, other);
    path = other;
    const std::string message = refusal(path);
    EXPECT_THAT(message, HasSubstr("the manifest is of step 100, whose folder is named step-000"));
    EXPECT_THAT(message, AllOf(Not(HasSubstr("damaged")), Not(HasSubstr("beside it"))));
    EXPECT_THAT(verify(path).differences, ElementsAre(message));
  }
  fs::rename(path, folder.path() / "best");
  EXPECT_EQ(refusal(folder.path() / "best"), "");
  EXPECT_TRUE(verify(folder.path() / "best").is_good());
}

TEST(Load, AnotherFormatIsNoDamage) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_small(model, folder.path(), 100);
  save_small(model, folder.path(), 50);
  Manifest manifest = read_manifest(path / "manifest.json");
  manifest.format_version = Manifest::kFormatVersion + 1;
  test::spill(path / "manifest.json", to_json(manifest));
  const std::string message = refusal(path);
  EXPECT_THAT(message, HasSubstr("this program reads"));
  EXPECT_THAT(message, AllOf(Not(HasSubstr("damaged")), Not(HasSubstr("beside it"))));
}

/// As another user; the first one may read everything.
TEST(Load, NoPermissionIsNoDamage) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_small(model, folder.path(), 100);
  save_small(model, folder.path(), 50);
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(path / "head.safetensors", fs::perms::none);
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  if (self == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const std::string message = refusal(path);
  ASSERT_EQ(::seteuid(self), 0);
  EXPECT_THAT(message, HasSubstr("head.safetensors: Permission denied"));
  EXPECT_THAT(message, AllOf(Not(HasSubstr("damaged")), Not(HasSubstr("beside it"))));
}

}  // namespace
}  // namespace ulmus::checkpoint
