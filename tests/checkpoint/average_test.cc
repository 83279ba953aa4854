#include "ulmus/checkpoint/average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/checkpoint/info.h"
#include "ulmus/checkpoint/reader.h"
#include "ulmus/checkpoint/show.h"
#include "ulmus/checkpoint/verify.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::small_facts;
using test::SmallModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBias = "layers.0.moe.router.bias";
constexpr const char* kTokenizer = "data.tokenizer.xxh3_64";
constexpr const char* kTrain = "data.train.xxh3_64";
const std::vector<std::string> kMoments = {std::string(kFirstMomentSuffix),
                                           std::string(kSecondMomentSuffix)};

/// Checkpoints of models of one shape, in folders of their own.
class Average : public ::testing::Test {
 protected:
  fs::path save(const SmallModel& model, const std::string& name, const Manifest& facts) {
    SmallModel ranks(0);
    CheckpointWriter writer(test::kStagingBytes);
    return writer
        .save(folder_.path() / name, facts, model.tensors, {}, *model.device, ranks.ranks())
        .path;
  }
  fs::path save(SmallModel& model, const std::string& name, std::int64_t step = 100) {
    return save(model, name, small_facts(step));
  }
  fs::path output() const { return folder_.path() / "mean"; }
  std::string refusal(const std::vector<fs::path>& paths) {
    const std::string message = message_of<InputError>([&] { average(paths, output()); });
    EXPECT_FALSE(fs::exists(output()));
    EXPECT_FALSE(fs::exists(folder_.path() / "mean.part"));
    return message;
  }
  /// Two checkpoints whose facts were changed.
  std::string refusal(const std::function<void(Manifest&)>& change_first,
                      const std::function<void(Manifest&)>& change_second) {
    SmallModel model(1);
    Manifest first = small_facts(100);
    Manifest second = first;
    change_first(first);
    change_second(second);
    return refusal({save(model, "a", first), save(model, "b", second)});
  }
  /// The weights of a checkpoint, moments left out, into a model.
  static void load_weights(const fs::path& path, SmallModel& model) {
    std::erase_if(model.tensors, [](const TensorRef& tensor) {
      return tensor.file_group.ends_with(".optimizer");
    });
    load(path, model.tensors, *model.device, model.ranks(), {.left_out_suffixes = kMoments});
  }

  test::TempFolder folder_;
};

template <class T>
std::vector<T> values_in(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class T>
std::vector<T> values_of(const SmallModel& model, const std::string& name) {
  return values_in<T>(model.bytes_of(name));
}

TEST_F(Average, EveryWeightIsTheMeanFormedInF64AndRoundedOnce) {
  SmallModel a(1);
  SmallModel b(2);
  SmallModel c(3);
  const std::vector<fs::path> paths = {save(a, "a", 10), save(b, "b", 20), save(c, "c", 30)};
  const AverageReport report = average(paths, output());
  EXPECT_EQ(report.path, output());
  EXPECT_EQ(report.tensors, 5);
  EXPECT_EQ(report.elements, 37 * 16 + 3 * 50 * 100 + 1 + 4097);
  SmallModel mean(4);
  load_weights(output(), mean);
  for (const char* name : {"embedding.weight", "layers.0.moe.experts.up", "layers.0.norm.weight"}) {
    const auto x = values_of<float>(a, name);
    const auto y = values_of<float>(b, name);
    const auto z = values_of<float>(c, name);
    const auto m = values_of<float>(mean, name);
    for (std::size_t i = 0; i < m.size(); ++i) {
      const double sum =
          static_cast<double>(x[i]) + static_cast<double>(y[i]) + static_cast<double>(z[i]);
      ASSERT_EQ(m[i], static_cast<float>(sum / 3.0)) << name << " element " << i;
    }
  }
  const auto x = values_of<double>(a, "head.weight");
  const auto y = values_of<double>(b, "head.weight");
  const auto z = values_of<double>(c, "head.weight");
  const auto m = values_of<double>(mean, "head.weight");
  for (std::size_t i = 0; i < m.size(); ++i)
    ASSERT_EQ(m[i], (x[i] + y[i] + z[i]) / 3.0) << i;
}

/// Sums that tell f32 from f64 partial sums, one order from another, one rounding from two.
TEST_F(Average, ValuesAreAddedInTheOrderGiven) {
  SmallModel a(1);
  SmallModel b(1);
  SmallModel c(1);
  const auto put = [](SmallModel& model, double number) {
    std::vector<double> values(4097, number);
    model.write(model.ref("head.weight").view, values);
  };
  put(a, 1e16);
  put(b, 1.0);
  put(c, -1e16);
  const std::vector<fs::path> paths = {save(a, "a"), save(b, "b"), save(c, "c")};
  const auto first_of = [&](const std::vector<fs::path>& order, const char* name) {
    average(order, folder_.path() / name);
    SmallModel mean(4);
    load_weights(folder_.path() / name, mean);
    return values_of<double>(mean, "head.weight").front();
  };
  EXPECT_EQ(first_of({paths[0], paths[1], paths[2]}, "abc"), 0.0);
  EXPECT_EQ(first_of({paths[0], paths[2], paths[1]}, "acb"), 1.0 / 3.0);
}

TEST_F(Average, NegativeZerosSubnormalsAndLargeNumbersSurvive) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<float> first = {-0.0F, -0.0F, kTiny, kTiny, 3 * kTiny, kMax, 1.0F, -kTiny};
  const std::vector<float> second = {-0.0F, 0.0F, kTiny, 0.0F, 0.0F, kMax, 0x1.000002p0F, -0.0F};
  // Ties go to even: half a tiny to 0, one and a half to two.
  const std::vector<float> expected = {-0.0F, 0.0F, kTiny, 0.0F, 2 * kTiny, kMax, 1.0F, -0.0F};
  SmallModel a(1);
  SmallModel b(1);
  const auto put = [](SmallModel& model, const std::vector<float>& numbers) {
    std::vector<double> values(37 * 16, 0.0);
    std::ranges::copy(numbers, values.begin());
    model.write(model.ref("embedding.weight").view, values);
  };
  put(a, first);
  put(b, second);
  average(std::vector<fs::path>{save(a, "a"), save(b, "b")}, output());
  SmallModel mean(4);
  load_weights(output(), mean);
  const auto values = values_of<float>(mean, "embedding.weight");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(values[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(values[i]), std::signbit(expected[i])) << i;
  }
}

TEST_F(Average, TheResultIsAGoodCheckpointWithTheFactsOfTheLast) {
  SmallModel model(1);
  Manifest first = small_facts(300);
  Manifest last = small_facts(200);
  first.doubles[kBias] = {0.1, -0.0, 3.0};
  last.doubles[kBias] = {0.2, -0.0, 4.0};
  first.integers[kTokenizer] = {-7};
  last.integers[kTrain] = {8};
  last.configuration["optim.lr"] = "0.002";
  const std::vector<fs::path> paths = {save(model, "a", first), save(model, "b", last)};
  const AverageReport report = average(paths, output() / "", {{"time", "noon"}});
  EXPECT_EQ(report.path, output());
  EXPECT_EQ(report.step, 200);
  const VerifyReport verified = verify(output());
  EXPECT_TRUE(verified.is_good()) << verified.differences.front();
  const ShowReport shown = show(output());
  EXPECT_EQ(shown.manifest.step, 200);
  EXPECT_EQ(shown.manifest.tokens, 200000);
  EXPECT_EQ(shown.manifest.data_position, 1600);
  EXPECT_EQ(shown.manifest.configuration, last.configuration);
  EXPECT_EQ(shown.elements, report.elements);
  const std::map<std::string, std::vector<std::int64_t>> hashes = {{kTokenizer, {-7}},
                                                                   {kTrain, {8}}};
  EXPECT_EQ(shown.manifest.integers, hashes);
  // head.weight is f64, and so is the model.
  const std::map<std::string, std::vector<double>> biases = {{kBias, {(0.1 + 0.2) / 2, -0.0, 3.5}}};
  EXPECT_EQ(shown.manifest.doubles, biases);
  EXPECT_EQ(shown.info.at("averaged"), paths[0].string() + ", " + paths[1].string());
  EXPECT_EQ(shown.info.at("time"), "noon");
  EXPECT_THAT(shown.info.at("program"), testing::StartsWith("ulmus "));
  EXPECT_FALSE(fs::exists(folder_.path() / "mean.part"));
}

TEST_F(Average, BiasesOfAnF32ModelAreRoundedToF32) {
  SmallModel model(1);
  std::erase_if(model.tensors, [](const TensorRef& tensor) { return tensor.file_group == "head"; });
  Manifest facts = small_facts(5);
  facts.doubles[kBias] = {static_cast<double>(0.1F)};
  const fs::path a = save(model, "a", facts);
  facts.doubles[kBias] = {static_cast<double>(0.3F)};
  const fs::path b = save(model, "b", facts);
  average(std::vector<fs::path>{a, b}, output());
  const double mean = (static_cast<double>(0.1F) + static_cast<double>(0.3F)) / 2;
  EXPECT_NE(mean, static_cast<double>(static_cast<float>(mean)));
  EXPECT_THAT(show(output()).manifest.doubles.at(kBias),
              ElementsAre(static_cast<double>(static_cast<float>(mean))));
}

TEST_F(Average, OneCheckpointOrTheSameTwiceIsRefused) {
  SmallModel model(1);
  const fs::path a = save(model, "a");
  EXPECT_THAT(refusal(std::vector<fs::path>{}), HasSubstr("two checkpoints or more"));
  EXPECT_THAT(refusal({a}), AllOf(HasSubstr("two checkpoints or more"), HasSubstr(a.string())));
  fs::create_directory_symlink(a, folder_.path() / "link");
  for (const fs::path& again : {a, a / "", a / ".." / a.filename(), folder_.path() / "link"}) {
    EXPECT_THAT(refusal({a, again}),
                AllOf(HasSubstr("the same checkpoint twice"), HasSubstr(again.string())));
  }
  EXPECT_THAT(refusal({a, folder_.path() / "none"}), HasSubstr("none: there is no such folder"));
  EXPECT_THAT(refusal({a, folder_.path()}), HasSubstr("has no manifest.json"));
}

TEST_F(Average, OtherTensorsAreRefusedWithAllDifferences) {
  SmallModel a(1);
  SmallModel b(1);
  b.ref("embedding.weight").name = "embedding.other";
  b.ref("layers.0.moe.experts.up").blocks = BlockRange::all(15000, 15000);
  b.ref("head.weight").view = b.allocate(DType::kF32, {4097});
  b.ref("layers.0.norm.weight").shape = Shape{1, 1};
  // Moments are not looked at.
  b.ref("layers.0.moe.experts.up.exp_avg").name = "layers.0.other.exp_avg";
  const std::string message = refusal({save(a, "a"), save(b, "b")});
  EXPECT_THAT(message, AllOf(HasSubstr("differ in 5 places"),
                             HasSubstr("\"embedding.weight\": [37, 16] f32 in 1 slice and absent"),
                             HasSubstr("\"embedding.other\": absent and [37, 16] f32 in 1 slice")));
  EXPECT_THAT(message,
              AllOf(HasSubstr("[3, 50, 100] f32 in 3 slices and [3, 50, 100] f32 in 1 slice"),
                    HasSubstr("[4097] f64 in 1 slice and [4097] f32 in 1 slice"),
                    HasSubstr("\"layers.0.norm.weight\": [1] f32 in 1 slice and [1, 1] f32"),
                    Not(HasSubstr("exp_avg"))));
}

TEST_F(Average, OtherModelsBiasesOrTokenizersAreRefusedWithBothValues) {
  const auto nothing = [](Manifest&) {};
  const std::string message = refusal(
      [](Manifest& facts) {
        facts.configuration["moe.top_k"] = "2";
        facts.configuration["optim.lr"] = "7";
      },
      [](Manifest& facts) { facts.configuration["model.family"] = "mixtral"; });
  EXPECT_THAT(message, AllOf(HasSubstr("differ in 2 places"),
                             HasSubstr("\"model.family\": olmoe and mixtral"),
                             HasSubstr("\"moe.top_k\": 2 and absent"), Not(HasSubstr("optim"))));
  EXPECT_THAT(
      refusal(nothing, [](Manifest& facts) { facts.configuration["model.family"] = "\x1b[2J"; }),
      HasSubstr("\"model.family\": olmoe and \"\\x1b[2J\""));
  EXPECT_THAT(refusal(nothing, [](Manifest& facts) { facts.doubles[kBias] = {1.0}; }),
              HasSubstr("\"layers.0.moe.router.bias\": absent and [1]"));
  EXPECT_THAT(refusal([](Manifest& facts) { facts.integers[kTokenizer] = {1}; },
                      [](Manifest& facts) { facts.integers[kTokenizer] = {2}; }),
              AllOf(HasSubstr("different tokenizers"), HasSubstr("0000000000000001"),
                    HasSubstr("0000000000000002")));
}

TEST_F(Average, AnOutputThatExistsOrIsNamedAfterAnotherStepIsRefused) {
  SmallModel a(1);
  SmallModel b(2);
  const std::vector<fs::path> paths = {save(a, "a"), save(b, "b", 200)};
  const fs::path there = folder_.path() / "there";
  fs::create_directory(there);
  EXPECT_THAT(message_of<InputError>([&] { average(paths, there); }),
              HasSubstr("there exists already"));
  EXPECT_THAT(message_of<InputError>([&] { average(paths, paths[0]); }),
              HasSubstr("exists already"));
  EXPECT_THAT(message_of<InputError>([&] { average(paths, there / "step-00000100"); }),
              HasSubstr("must be named step-00000200"));
  average(paths, there / "step-00000200");
  EXPECT_TRUE(verify(there / "step-00000200").is_good());
}

TEST_F(Average, ADamagedCheckpointIsNamed) {
  SmallModel a(1);
  SmallModel b(2);
  const fs::path good = save(a, "a");
  const fs::path bad = save(b, "b");
  const auto damaged = [&](const char* name, const std::function<void(std::string&)>& change) {
    const std::string bytes = test::slurp(bad / name);
    std::string changed = bytes;
    change(changed);
    test::spill(bad / name, changed);
    const std::string message = refusal({good, bad});
    EXPECT_THAT(message, HasSubstr((bad / name).string()));
    test::spill(bad / name, bytes);
    return message;
  };
  EXPECT_THAT(damaged("head.safetensors", [](std::string& bytes) { bytes.back() ^= 1; }),
              HasSubstr("tensor \"head.weight\": its data have hash"));
  EXPECT_THAT(damaged("head.safetensors", [](std::string& bytes) { bytes.pop_back(); }),
              HasSubstr("head.safetensors"));
  EXPECT_THAT(damaged("head.safetensors",
                      [](std::string& bytes) { bytes.replace(bytes.find("4097"), 4, "4907"); }),
              HasSubstr("head.safetensors"));
  EXPECT_THAT(damaged("manifest.json",
                      [](std::string& bytes) { bytes.replace(bytes.find("4097"), 4, "4907"); }),
              HasSubstr("manifest.json"));
  // Moments are not read.
  const fs::path moments = bad / "layer-00.optimizer.safetensors";
  test::spill(moments, "damaged");
  average(std::vector<fs::path>{good, bad}, output());
  EXPECT_TRUE(verify(output()).is_good());
}

TEST_F(Average, WhatAnInterruptedOneLeftIsInNobodysWay) {
  SmallModel a(1);
  SmallModel b(2);
  const std::vector<fs::path> paths = {save(a, "a"), save(b, "b")};
  fs::create_directories(folder_.path() / "mean.part" / "step-00000100.part");
  average(paths, output());
  EXPECT_TRUE(verify(output()).is_good());
  EXPECT_FALSE(fs::exists(folder_.path() / "mean.part"));
}

}  // namespace
}  // namespace ulmus::checkpoint
