#include "ulmus/model/language_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/model_harness.h"
#include "tests/support/tolerance.h"

namespace ulmus::test {
namespace {

double max_abs(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double value : values)
    largest = std::max(largest, std::abs(value));
  return largest;
}

double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

/// Under the sequence scope nothing depends on how sequences are grouped into micro-batches.
TEST(LanguageModel, MicroBatchesDoNotChangeGradients) {
  for (model::ModelConfig config : {tiny_olmoe(), tiny_olmo3_moe()}) {
    config.moe.balance_scope = nn::BalanceScope::kSequence;
    const HostTokens tokens = random_tokens(4, 12, config.vocab, 6, true);
    ModelHarness harness(config, Backend::kRef, 4, 12);
    harness.step(tokens, 4);
    const auto whole = harness.gradients();
    for (const std::int64_t micro_sequences : {1, 2, 3}) {
      harness.step(tokens, micro_sequences);
      for (const auto& [name, gradient] : harness.gradients()) {
        const double bound = kMicroBatchF64.relative * max_abs(whole.at(name));
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          ASSERT_NEAR(gradient[i], whole.at(name)[i], bound) << name << " " << micro_sequences;
        }
      }
    }
  }
}

/// The fast f32 kernels against the f64 oracle: same loss, same routes, gradients within rounding.
TEST(LanguageModel, FastKernelsAgreeWithTheOracle) {
  for (const model::ModelConfig& config : {tiny_olmoe(), tiny_olmo3_moe()}) {
    const HostTokens tokens = random_tokens(3, 12, config.vocab, 7, true);
    ModelHarness oracle(config, Backend::kRef, 3, 12);
    const auto expected = oracle.step(tokens, 2);
    const auto expected_gradients = oracle.gradients();
    for (const int num_threads : {1, 2}) {
      ModelHarness fast(config, Backend::kCpu, 3, 12, num_threads);
      const auto& got = fast.step(tokens, 2);
      EXPECT_EQ(got.counts, expected.counts);
      EXPECT_NEAR(got.loss_ce, expected.loss_ce, kModelF32.relative * expected.loss_ce);
      for (const auto& [name, gradient] : fast.gradients()) {
        std::vector<double> difference = gradient;
        for (std::size_t i = 0; i < difference.size(); ++i) {
          difference[i] -= expected_gradients.at(name)[i];
        }
        EXPECT_LE(norm(difference), kModelF32.relative * norm(expected_gradients.at(name))) << name;
      }
    }
  }
}

TEST(LanguageModel, SameSeedSameBitsWhateverTheThreads) {
  const model::ModelConfig config = tiny_olmo3_moe();
  ModelHarness one(config, Backend::kCpu, 1, 8, 1);
  ModelHarness three(config, Backend::kCpu, 1, 8, 3);
  ModelHarness other(config, Backend::kCpu, 1, 8, 1, 0.0, 2);
  for (std::size_t i = 0; i < one.parameters->all().size(); ++i) {
    const nn::Parameter& parameter = one.parameters->all()[i];
    const auto values = one.read(parameter.value);
    EXPECT_EQ(values, three.read(three.parameters->all()[i].value)) << parameter.name;
    if (parameter.initialization.std > 0.0) {
      EXPECT_NE(values, other.read(other.parameters->all()[i].value)) << parameter.name;
    }
  }
}

/// A later token never changes an earlier logit; an earlier document never changes a later one.
TEST(LanguageModel, IsCausalAndSeparatesDocuments) {
  const model::ModelConfig config = tiny_olmo3_moe();
  ModelHarness harness(config, Backend::kRef, 1, 12);
  HostTokens tokens = random_tokens(1, 12, config.vocab, 8, true);
  const auto before = harness.logits(tokens, 0, 12);
  const auto row = [&](const std::vector<double>& logits, std::int64_t i) {
    return std::vector<double>(logits.begin() + i * config.vocab,
                               logits.begin() + (i + 1) * config.vocab);
  };
  constexpr std::int64_t kSecondDocument = 4;
  constexpr std::int64_t kChanged = 6;
  HostTokens later = tokens;
  later.tokens[kChanged] = (later.tokens[kChanged] + 1) % 23;
  const auto after = harness.logits(later, 0, 12);
  for (std::int64_t i = 0; i < kChanged; ++i)
    EXPECT_EQ(row(before, i), row(after, i)) << i;
  EXPECT_NE(row(before, kChanged), row(after, kChanged));
  HostTokens earlier = tokens;
  earlier.tokens[0] = (earlier.tokens[0] + 1) % 23;
  const auto changed = harness.logits(earlier, 0, 12);
  EXPECT_NE(row(before, 1), row(changed, 1));
  for (std::int64_t i = kSecondDocument; i < 9; ++i)
    EXPECT_EQ(row(before, i), row(changed, i)) << i;
}

/// Decoding with the cache, prompt at once and then token by token, gives the logits of the
/// training forward.
TEST(LanguageModel, DecodeMatchesTheTrainingForward) {
  model::ModelConfig forced = tiny_olmoe();
  forced.moe.routing = nn::Routing::kRandom;
  for (const model::ModelConfig& config : {tiny_olmoe(), tiny_olmo3_moe(), forced}) {
    for (const Backend backend : {Backend::kRef, Backend::kCpu}) {
      ModelHarness harness(config, backend, 1, 12, 2);
      const HostTokens tokens = random_tokens(1, 12, config.vocab, 9, false);
      const auto expected = harness.logits(tokens, 0, 12);
      constexpr std::int64_t kPrompt = 5;
      auto state = harness.model->allocate_decode(*harness.activations_arena, kPrompt, 12);
      const TensorView logits = harness.activations_arena->allocate(
          "logits", harness.parameters->dtype(), {1, config.vocab});
      nn::Batch all = harness.upload(tokens);
      for (std::int64_t begin = 0; begin < 12;) {
        const std::int64_t end = begin == 0 ? kPrompt : begin + 1;
        const nn::Batch next = {.num_sequences = 1,
                                .sequence_length = end - begin,
                                .tokens = all.tokens.rows(begin, end),
                                .targets = all.targets.rows(begin, end),
                                .first_key = all.first_key.rows(begin, end),
                                .positions = all.positions.rows(begin, end),
                                .valid = all.valid.rows(begin, end),
                                .valid_tokens = end - begin};
        harness.model->decode(logits, next, state, *harness.record, harness.context());
        const auto got = harness.read(logits);
        std::vector<double> difference = got;
        for (std::size_t v = 0; v < got.size(); ++v) {
          difference[v] -= expected[static_cast<std::size_t>(end - 1) * got.size() + v];
        }
        EXPECT_LE(norm(difference), kModelF32.relative * norm(got)) << end;
        begin = end;
      }
    }
  }
}

TEST(LanguageModel, RecordsRoutesAndLosses) {
  model::ModelConfig config = tiny_olmoe();
  config.moe.routing = nn::Routing::kUniform;
  const HostTokens tokens = random_tokens(3, 12, config.vocab, 10, false);
  ModelHarness harness(config, Backend::kRef, 3, 12);
  const auto& record = harness.step(tokens, 1);
  ASSERT_EQ(record.counts.size(), 2U);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    // 36 tokens, top-2 of 6 experts, dealt in turn.
    EXPECT_EQ(record.counts[layer], std::vector<std::int64_t>(6, 12));
    EXPECT_NEAR(record.balance[layer], 1.0, kClosedFormF64.relative);
  }
  EXPECT_GT(record.loss_ce, 0.0);
}

TEST(LanguageModel, CountsActiveParameters) {
  const model::ModelConfig config = tiny_olmoe();
  ModelHarness harness(config, Backend::kRef, 1, 8);
  const auto counts = model::count_parameters(*harness.parameters, config);
  const std::int64_t attention = 4 * 16 * 16 + 2 * 16;
  const std::int64_t expert = 3 * 16 * 5;
  const std::int64_t shared_parts = 2 * (attention + 2 * 16 + 6 * 16) + 2 * 23 * 16 + 16;
  EXPECT_EQ(counts.total, shared_parts + 2 * 6 * expert);
  EXPECT_EQ(counts.active, shared_parts + 2 * 2 * expert);
}

}  // namespace
}  // namespace ulmus::test
