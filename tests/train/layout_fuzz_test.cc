#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <span>

#include "tests/train/layout_draw.h"
#include "ulmus/comm/thread/thread_transport.h"

namespace ulmus::test {
namespace {

constexpr int kCases = 600;
constexpr int kMinLayouts = 200;
/// A rank that waits longer waits for ever.
constexpr std::chrono::seconds kTimeout{60};

/// --gtest_random_seed=5 draws other cases.
std::uint32_t seed() {
  constexpr std::uint32_t kSeed = 20261;
  const int given = GTEST_FLAG_GET(random_seed);
  return given > 0 ? static_cast<std::uint32_t>(given) : kSeed;
}

std::string described(int number, const DrawnCase& drawn) {
  return fmt::format("--gtest_random_seed={}, case {}, {} ranks; {}\n{}", seed(), number,
                     drawn.ranks, drawn.scene_text, drawn.toml);
}

train::ParityReport run(const DrawnCase& drawn, const train::ParityFaults& faults = {}) {
  return train::run_parity(
      drawn.config,
      {.ranks = drawn.ranks, .layouts = drawn.layouts, .scene = drawn.scene, .faults = faults},
      [&](const std::function<void(comm::World&)>& body) {
        comm::run_thread_ranks(drawn.ranks, {.timeout = kTimeout}, body);
      });
}

/// What a case found, a line for each; empty when all is well.
std::string differences(const train::ParityReport& report) {
  std::string text;
  for (const train::ParityRow& row : report.rows) {
    if (!row.first_difference) continue;
    text += fmt::format("{} in {}: {} differs by {:.3g}, allowed {:.3g}; smallest margin {:.3g}\n",
                        row.layout, row.precision, row.first_difference->tensor,
                        row.first_difference->error, row.first_difference->tolerance,
                        row.smallest_margin);
  }
  return text;
}

/// What was run, so that nobody takes a thin drawing for a proof.
struct Coverage {
  int layouts = 0;
  int fp32 = 0;
  int sharing = 0;  ///< experts on several ranks
  int resharded = 0;
  int idle = 0;    ///< with ranks that never have a token
  int skewed = 0;  ///< by router state
  void add(const DrawnCase& drawn) {
    const train::BatchConfig& batch = drawn.config.batch;
    const std::int64_t sequences = batch.tokens / drawn.config.data.sequence_length;
    const std::int64_t micro_batches =
        (sequences + batch.micro_sequences - 1) / batch.micro_sequences;
    for (const std::string& layout : drawn.layouts) {
      ++layouts;
      fp32 += drawn.config.compute == train::Compute::kFp32 ? 1 : 0;
      sharing += layout.starts_with("expert=1") ? 0 : 1;
      resharded += layout.find("params=resharded") != std::string::npos ? 1 : 0;
      idle += micro_batches < drawn.ranks ? 1 : 0;
      skewed += drawn.scene.before_steps ? 1 : 0;
    }
  }
};

TEST(LayoutFuzz, EveryDrawnLayoutComputesWhatOneRankComputes) {
  Coverage coverage;
  for (int number = 0; number < kCases; ++number) {
    const DrawnCase drawn = draw_case(seed(), number);
    std::cout << "case " << number << std::endl;  // a crash is that of the last one named
    coverage.add(drawn);
    try {
      const train::ParityReport report = run(drawn);
      const std::string found = differences(report);
      if (!found.empty()) ADD_FAILURE() << found << described(number, drawn);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << described(number, drawn);
    }
  }
  std::cout << fmt::format(
      "{} cases, {} layouts: {} also in fp32, {} share experts, {} resharded, {} with idle ranks, "
      "{} with skewed routers\n",
      kCases, coverage.layouts, coverage.fp32, coverage.sharing, coverage.resharded, coverage.idle,
      coverage.skewed);
  EXPECT_GE(coverage.layouts, kMinLayouts);
  for (const int part :
       {coverage.fp32, coverage.sharing, coverage.resharded, coverage.idle, coverage.skewed}) {
    EXPECT_GE(part, kMinLayouts / 10);
  }
}

/// Spoils one gradient by a thousandth, as a wrong divisor would, where a rank owns it.
void spoil(train::Runtime& runtime, const std::string& name) {
  for (const parallel::OwnedShare& share : runtime.parameter_store().shares()) {
    const auto& parameters = runtime.language_model().parameters().all();
    if (parameters[static_cast<std::size_t>(share.parameter)].name != name) continue;
    std::vector<double> values(static_cast<std::size_t>(share.grad.numel()));
    if (values.empty()) continue;
    runtime.device().copy_to_host(std::span(values), ConstTensorView(share.grad));
    for (double& value : values)
      value *= 1.001;
    runtime.device().copy_to_device(share.grad, std::span<const double>(values));
  }
}

/// The fuzz can fail: a planted fault is found in every drawn layout, and named.
TEST(LayoutFuzz, FindsAPlantedFaultInDrawnCases) {
  const std::string name = "final_norm.weight";
  int planted = 0;
  for (int number = 0; planted < 5; ++number) {
    DrawnCase drawn = draw_case(seed(), number);
    drawn.config.compute = train::Compute::kFp64;
    drawn.scene.data = {};  // no step without a loss
    const train::ParityReport report =
        run(drawn, {.families = {},
                    .after_gradients = [&](train::Runtime& runtime) { spoil(runtime, name); }});
    ++planted;
    for (const train::ParityRow& row : report.rows) {
      ASSERT_TRUE(row.first_difference) << row.layout << "\n" << described(number, drawn);
      EXPECT_EQ(row.first_difference->tensor, "step 1 gradient " + name) << row.layout;
    }
  }
}

/// A micro-batch has at most the sequences of a step: no layout takes more.
TEST(LayoutFuzz, MicroBatchesLargerThanTheStepAreRefused) {
  DrawnCase drawn = draw_case(seed(), 0);
  drawn.config.batch.micro_sequences =
      drawn.config.batch.tokens / drawn.config.data.sequence_length + 1;
  for (const train::ParityLayout& layout : train::parity_layouts(drawn.config, drawn.ranks)) {
    ASSERT_TRUE(layout.refusal) << layout.name;
    EXPECT_NE(layout.refusal->find("batch.micro_sequences"), std::string::npos) << *layout.refusal;
  }
}

}  // namespace
}  // namespace ulmus::test
