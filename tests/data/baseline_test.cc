#include "ulmus/data/baseline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/data/test_files.h"
#include "tests/data/test_text.h"
#include "tests/support/tolerance.h"
#include "ulmus/data/tokenize.h"

namespace ulmus::data {
namespace {

// All compared values are of the order of one.
constexpr double kTolerance = test::kClosedFormF64.relative;

TEST(BigramModel, GivesProbabilitiesThatSumToOne) {
  TestRandom random("bigram");
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 500; ++i)
    tokens.push_back(static_cast<std::int32_t>(random.below(9)));
  const BigramModel model(tokens, 12);
  double unigrams = 0.0;
  for (std::int32_t w = 0; w < 12; ++w)
    unigrams += model.unigram(w);
  EXPECT_NEAR(unigrams, 1.0, kTolerance);
  for (std::int32_t v = 0; v < 12; ++v) {
    double sum = 0.0;
    for (std::int32_t w = 0; w < 12; ++w) {
      EXPECT_GT(model.bigram(v, w), 0.0);
      sum += model.bigram(v, w);
    }
    EXPECT_NEAR(sum, 1.0, kTolerance);
    if (v >= 9) {
      EXPECT_EQ(model.bigram(v, 3), model.unigram(3)) << "never seen before";
    }
  }
}

TEST(BigramModel, TrustsPairsAsFarAsTheyHelp) {
  std::vector<std::int32_t> cycle;
  for (int i = 0; i < 3000; ++i)
    cycle.push_back(i % 5);
  EXPECT_GT(BigramModel(cycle, 5).bigram(2, 3), 0.99);
  TestRandom random("independent");
  std::vector<std::int32_t> independent;
  for (int i = 0; i < 20000; ++i)
    independent.push_back(static_cast<std::int32_t>(random.below(5)));
  // Fair draws: 1/5, whatever came before; four standard deviations of the counted frequency.
  EXPECT_NEAR(BigramModel(independent, 5).bigram(2, 3), 0.2, 4 * std::sqrt(0.16 / 4000));
}

TEST(ScoreBaselines, AreTheClosedForms) {
  TestFolder folder;
  // 30 tokens 0 0 1 0 0 1 ...: c(0) = 20, c(1) = 10 of V = 4.
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 30; ++i)
    ids.push_back(i % 3 == 2 ? 1 : 0);
  const auto train = write_tokens(folder, "train", {ids}, 4);
  const auto eval = write_tokens(folder, "eval", {{3, 0, 0, 1}}, 4);
  const BaselineReport report = score_baselines({train}, {eval}, 4);
  EXPECT_EQ(report.num_train_tokens, 30);
  EXPECT_EQ(report.num_eval_tokens, 3);  // 0 0 1
  const double unigram = -2 * std::log(21.0 / 34) - std::log(11.0 / 34);
  EXPECT_NEAR(report.unigram.nats_per_token, unigram / 3, kTolerance);
  EXPECT_NEAR(*report.unigram.bits_per_byte, unigram / std::numbers::ln2 / 12, kTolerance);
  const double own = -2 * std::log(2.0 / 3) - std::log(1.0 / 3);
  EXPECT_NEAR(report.own_entropy.nats_per_token, own / 3, kTolerance);
}

TEST(ScoreBaselines, OnRealTextTheBigramIsBetterThanAnyUnigram) {
  TestFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(test_data("tokenizer-hf.json"));
  const std::string text = austen_excerpt();
  const std::size_t cut = text.find("\n\n", 120000);
  ThreadPool pool(2);
  const auto make = [&](const std::string& stem, std::string_view part) {
    const std::vector<std::filesystem::path> paths{folder.write(stem + ".txt", part)};
    tokenize(find_inputs(paths), tokenizer, {.folder = folder.path() / "out", .stem = stem}, pool);
    return std::make_shared<TokenFile>(TokenFile::open(folder.path() / "out" / (stem + ".tokens")));
  };
  const auto train = make("train", std::string_view(text).substr(0, cut));
  const auto eval = make("eval", std::string_view(text).substr(cut));
  const BaselineReport report = score_baselines({train}, {eval}, tokenizer.vocab_size());
  EXPECT_GT(report.unigram.nats_per_token, report.own_entropy.nats_per_token);
  EXPECT_LT(report.bigram.nats_per_token, report.own_entropy.nats_per_token);
  EXPECT_GT(*report.bigram.bits_per_byte, 1.8);  // no counting model is that good on English
}

}  // namespace
}  // namespace ulmus::data
