#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/model_harness.h"
#include "tests/support/tolerance.h"
#include "ulmus/base/philox.h"

namespace ulmus::test {
namespace {

/// A direction of unit length for each parameter.
std::vector<double> random_direction(const std::string& name, std::size_t n) {
  const PhiloxKey key = philox_key(11, RandomPurpose::kTest, name);
  std::vector<double> direction(n);
  double norm_sq = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    direction[i] = philox_truncated_normal(key, i, 3.0);
    norm_sq += direction[i] * direction[i];
  }
  for (double& d : direction)
    d /= std::sqrt(norm_sq);
  return direction;
}

/// Compares <gradient, direction> with a central difference of the objective, parameter by
/// parameter. Routes do not flip within the step: the top-k margins of these seeds are far larger.
void check_gradients(const model::ModelConfig& config, const HostTokens& tokens,
                     std::int64_t micro_sequences, double head_z_loss) {
  ModelHarness harness(config, Backend::kRef, tokens.num_sequences, tokens.sequence_length, 1,
                       head_z_loss);
  harness.step(tokens, micro_sequences);
  const auto gradients = harness.gradients();
  constexpr double kStep = 1e-5;
  for (const nn::Parameter& parameter : harness.parameters->all()) {
    const std::vector<double> values = harness.read(parameter.value);
    const std::vector<double> direction = random_direction(parameter.name, values.size());
    double analytic = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      analytic += gradients.at(parameter.name)[i] * direction[i];
    }
    const auto objective_at = [&](double step) {
      std::vector<double> moved = values;
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] += step * direction[i];
      harness.write(parameter.value, moved);
      return harness.objective(tokens, micro_sequences);
    };
    const double numeric = (objective_at(kStep) - objective_at(-kStep)) / (2.0 * kStep);
    harness.write(parameter.value, values);
    EXPECT_NEAR(analytic, numeric,
                kGradCheckF64.relative * std::max(std::abs(numeric), 1e-2) + kGradCheckF64.absolute)
        << parameter.name;
    EXPECT_GT(std::abs(numeric), 0.0) << parameter.name << " does not move the objective";
  }
}

TEST(LanguageModelGradients, Olmoe) {
  const model::ModelConfig config = tiny_olmoe();
  check_gradients(config, random_tokens(3, 9, config.vocab, 1, false), 3, 0.1);
}

TEST(LanguageModelGradients, OlmoeInMicroBatchesWithDocumentsAndPadding) {
  const model::ModelConfig config = tiny_olmoe();
  check_gradients(config, random_tokens(3, 12, config.vocab, 2, true), 2, 0.0);
}

TEST(LanguageModelGradients, Olmo3Moe) {
  const model::ModelConfig config = tiny_olmo3_moe();
  check_gradients(config, random_tokens(3, 12, config.vocab, 3, true), 2, 0.0);
}

TEST(LanguageModelGradients, OutputNormSigmoidRouterSumToOneTied) {
  model::ModelConfig config = tiny_olmoe();
  config.norm = model::NormPlacement::kOutput;
  config.qk_norm = nn::QkNorm::kNone;
  config.tied = true;
  config.moe.rule = {
      .gate = ops::RouterGate::kSigmoid, .weights = ops::RouteWeights::kSumToOne, .scale = 2.5};
  check_gradients(config, random_tokens(2, 10, config.vocab, 4, false), 2, 0.0);
}

TEST(LanguageModelGradients, StepScopeUsesThePreviousCounts) {
  model::ModelConfig config = tiny_olmoe();
  config.moe.balance_scope = nn::BalanceScope::kStep;
  config.moe.rule.gate = ops::RouterGate::kSigmoid;
  check_gradients(config, random_tokens(2, 10, config.vocab, 5, false), 1, 0.0);
}

}  // namespace
}  // namespace ulmus::test
