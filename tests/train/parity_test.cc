#include "ulmus/train/parity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/message_of.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/ops/elementwise.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/parity_batch.h"

namespace ulmus::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The recipe, cut down to three layers.
train::Config small_config(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.end(), {"model.layers=3", "model.vocab=96"});
  return train::load_config(std::string(ULMUS_CONFIGS) + "/parity.toml", overrides);
}

train::OnRanks on_threads(int ranks) {
  return [ranks](const std::function<void(comm::World&)>& body) {
    comm::run_thread_ranks(ranks, {}, body);
  };
}

train::ParityReport parity_of(const train::Config& config, const train::ParityOptions& options) {
  return train::run_parity(config, options, on_threads(options.ranks));
}

std::string first_difference(const train::ParityReport& report) {
  for (const train::ParityRow& row : report.rows) {
    if (row.first_difference) return row.first_difference->tensor;
  }
  return "";
}

TEST(Parity, AllLayoutsOfFourRanks) {
  const train::ParityReport report = parity_of(small_config(), {.ranks = 4});
  EXPECT_EQ(first_difference(report), "");
  EXPECT_TRUE(report.is_equal());
  EXPECT_EQ(report.rows.size(), 2U * static_cast<std::size_t>(report.legal));
  EXPECT_GT(report.rows.front().worst, 0.0) << "nothing was compared";
}

TEST(Parity, OddNumbersOfRanksAndOtherObjectives) {
  for (const char* scope : {"moe.balance_scope=step", "moe.balance_scope=micro_batch"}) {
    const train::ParityReport report = parity_of(
        small_config({scope, "moe.gate=sigmoid", "precision.compute=fp64"}), {.ranks = 3});
    EXPECT_EQ(first_difference(report), "") << scope;
  }
  // More ranks than micro-batches: some never have a token.
  const train::ParityReport many =
      parity_of(small_config({"precision.compute=fp64"}),
                {.ranks = 6,
                 .layouts = {"expert=1 exchange=local params=resident",
                             "expert=6 exchange=all_to_all params=resharded prefetch=true"}});
  EXPECT_EQ(first_difference(many), "");
}

/// The numbers of layouts by arithmetic of their own: a share of the experts for each rank of a
/// group that divides both the ranks and the experts; without sharing either exchange will do.
TEST(Parity, CountsLegalAndRefusedLayouts) {
  const train::Config config = small_config();
  for (const int ranks : {1, 2, 3, 4, 5, 6, 8, 12}) {
    int legal = 0;
    for (int expert = 1; expert <= ranks; ++expert) {
      if (ranks % expert != 0 || 12 % expert != 0) continue;
      // Resident; resharded with two lengths of stay, with and without prefetch.
      legal += (expert == 1 ? 2 : 1) * 5;
    }
    const auto layouts = train::parity_layouts(config, ranks);
    EXPECT_EQ(layouts.size(), 2U * 8U * static_cast<std::size_t>(ranks));
    EXPECT_EQ(std::ranges::count_if(layouts, [](const auto& one) { return !one.refusal; }), legal)
        << ranks;
  }
}

TEST(Parity, ModelsWithoutExpertsAndWithATiedHead) {
  const train::ParityReport tied =
      parity_of(small_config({"model.tied=true", "precision.compute=fp64"}), {.ranks = 2});
  EXPECT_EQ(first_difference(tied), "");
  EXPECT_EQ(tied.run, 15);
  const train::Config dense = train::parse_config(
      "[run]\nmax_steps = 0\n[model]\nfamily = \"olmoe\"\nd_model = 32\nlayers = 2\n"
      "dense_layers = 2\nffn_hidden = 40\nheads = 4\nvocab = 64\n[data]\nsequence_length = 16\n"
      "[optim]\nlr = 0.0003\neps = 1e-6\n[batch]\ntokens = 80\nmicro_sequences = 2\n",
      "dense", {});
  const train::ParityReport report = parity_of(dense, {.ranks = 2});
  EXPECT_EQ(first_difference(report), "");
  EXPECT_EQ(report.legal, 5);
}

TEST(Parity, LayoutsAreChosenByName) {
  const train::Config config = small_config({"precision.compute=fp64"});
  const train::ParityReport report =
      parity_of(config, {.ranks = 2, .layouts = {"expert=2 exchange=all_to_all params=resident"}});
  EXPECT_EQ(report.run, 1);
  EXPECT_EQ(report.legal, 15);
  EXPECT_EQ(report.refused, 2 * 16 - 15);
  const auto refusal = [&](const std::string& name) {
    return message_of([&] { parity_of(config, {.ranks = 2, .layouts = {name}}); });
  };
  EXPECT_THAT(refusal("expert=2 exchange=all_to_al params=resident"),
              HasSubstr("the nearest is \"expert=2"));
  EXPECT_THAT(refusal("expert=2 exchange=local params=resident"),
              HasSubstr("is refused: parallel.exchange"));
}

std::vector<double> traced(const train::Trace& trace, std::string_view name) {
  const auto found = std::ranges::find_if(
      trace.tensors, [&](const train::TracedTensor& tensor) { return tensor.name == name; });
  return found == trace.tensors.end() ? std::vector<double>() : found->values;
}

/// What the recipe promises: gradients are clipped, and skip-step judges every step.
TEST(Parity, ClippingAndSkipStepAreActive) {
  const train::Config config = small_config({"precision.compute=fp64"});
  comm::World alone(std::move(comm::make_thread_transports(1).front()), {});
  const train::Trace trace = train::trace_steps(config, alone, {}, nullptr);
  for (const char* step : {"step 1 ", "step 2 "}) {
    EXPECT_LT(traced(trace, concat(step, "clip factor")).at(0), 1.0);
    EXPECT_EQ(traced(trace, concat(step, "reason to skip")).at(0), 0.0);
  }
  EXPECT_EQ(traced(trace, "step 2 updates").at(0), 2.0);
}

/// Every rank of every layout skips the step that stands out.
TEST(Parity, AStepThatStandsOutIsSkippedUnderEveryLayout) {
  const train::Config config = small_config({"precision.compute=fp64"});
  train::ParityScene scene;
  scene.before_steps = [](train::Runtime& runtime) {
    optim::OptimizerState state = runtime.optimizer().export_state(runtime.device());
    const auto window = static_cast<std::size_t>(ops::kSkipWindow);
    for (std::size_t i = 0; i < window; ++i)
      state.windows[i] = i % 2 == 0 ? 1.0 : 1.1;  // far below what the steps have
    runtime.optimizer().import_state(state, runtime.device());
  };
  comm::World alone(std::move(comm::make_thread_transports(1).front()), {});
  const train::Trace trace = train::trace_steps(config, alone, scene, nullptr);
  EXPECT_EQ(traced(trace, "step 1 reason to skip").at(0),
            static_cast<double>(ops::GateReason::kSkipLoss));
  EXPECT_EQ(traced(trace, "step 1 updates").at(0), 0.0);
  const train::ParityReport report = parity_of(config, {.ranks = 4, .scene = scene});
  EXPECT_EQ(first_difference(report), "");
}

/// What is put wrong on purpose is found, and the first tensor that it spoils is named.
class ParityFaults : public testing::Test {
 protected:
  static std::string found(const train::ParityFaults& faults) {
    train::ParityOptions options;
    options.ranks = 4;
    options.layouts = {"expert=2 exchange=all_to_all params=resident"};
    options.faults = faults;
    return first_difference(parity_of(small_config({"precision.compute=fp64"}), options));
  }
};

TEST_F(ParityFaults, NoneIsFoundWhereThereIsNone) { EXPECT_EQ(found({}), ""); }

TEST_F(ParityFaults, ADivisionByTheSizeOfAGroup) {
  const auto divide = [](train::Runtime& runtime) {
    for (const parallel::OwnedShare& share : runtime.parameter_store().shares()) {
      const nn::Parameter& parameter =
          runtime.language_model().parameters().all()[static_cast<std::size_t>(share.parameter)];
      if (parameter.name != "layers.1.moe.experts.down.weight" || share.grad.numel() == 0) continue;
      std::vector<double> values(static_cast<std::size_t>(share.grad.numel()));
      runtime.device().copy_to_host(std::span(values), ConstTensorView(share.grad));
      for (double& value : values)
        value /= runtime.ranks().replicas().size();
      runtime.device().copy_to_device(share.grad, std::span<const double>(values));
    }
  };
  EXPECT_EQ(found({.families = {}, .after_gradients = divide}),
            "step 1 gradient layers.1.moe.experts.down.weight");
}

TEST_F(ParityFaults, TwoGroupsSwapped) {
  const auto swap = [](const parallel::Ranks& ranks) {
    return parallel::FamilyGroups{.dense = &ranks.replicas(), .expert = &ranks.dense()};
  };
  EXPECT_THAT(found({.families = swap, .after_gradients = {}}), StartsWith("step 1 gradient"));
}

TEST_F(ParityFaults, AFamilyThatIsNotReduced) {
  // Every rank alone, as if its experts had no copies.
  std::vector<std::unique_ptr<comm::Communicator>> alone(4);
  const auto forget = [&](const parallel::Ranks& ranks) {
    auto& own = alone[static_cast<std::size_t>(ranks.world().rank())];
    own = ranks.world().make_group("alone", {{0}, {1}, {2}, {3}});
    return parallel::FamilyGroups{.dense = &ranks.dense(), .expert = own.get()};
  };
  EXPECT_THAT(found({.families = forget, .after_gradients = {}}), HasSubstr("moe.experts"));
}

/// A number that is wrong on one rank alone is not hidden by the others.
TEST_F(ParityFaults, ABiasThatIsWrongOnOneRank) {
  for (const int bad : {0, 1, 2, 3}) {
    const auto spoil = [&](train::Runtime& runtime) {
      if (runtime.ranks().world().rank() != bad) return;
      for (const model::Block& block : runtime.language_model().blocks()) {
        if (!block.is_moe()) continue;
        const TensorView bias = block.router().buffers().bias;
        std::vector<double> values(static_cast<std::size_t>(bias.numel()));
        runtime.device().copy_to_host(std::span(values), ConstTensorView(bias));
        values.back() += 1e-6;  // changes no choice of experts
        runtime.device().copy_to_device(bias, std::span<const double>(values));
      }
    };
    EXPECT_THAT(found({.families = {}, .after_gradients = spoil}), HasSubstr("balancing bias"));
  }
}

TEST(ParityBatch, HasDocumentsPaddingAndAMicroBatchWithoutTokens) {
  const train::Config config = small_config();
  const data::HostBatch even = train::parity_step(config, 0);
  const data::HostBatch odd = train::parity_step(config, 1);
  EXPECT_EQ(even.num_sequences, 7);
  EXPECT_LT(even.valid_tokens, 7 * 32);
  EXPECT_GT(even.valid_tokens_of(6, 7), 0);
  EXPECT_EQ(odd.valid_tokens_of(6, 7), 0);
  EXPECT_NE(even.tokens, odd.tokens);
  EXPECT_LT(even.loss_tokens, even.valid_tokens);
  std::int64_t documents = 0;
  for (std::size_t i = 0; i < even.valid.size(); ++i) {
    const auto in_row = static_cast<std::int32_t>(i % 32);
    EXPECT_LE(even.document_begin[i], in_row);
    documents += even.valid[i] != 0 && even.document_begin[i] == in_row ? 1 : 0;
  }
  EXPECT_GT(documents, 2 * even.num_sequences);
}

}  // namespace
}  // namespace ulmus::test
