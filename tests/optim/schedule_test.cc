#include "ulmus/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/expect.h"
#include "ulmus/base/error.h"

namespace ulmus::optim {
namespace {

using test::kClosedFormF64;
using ::testing::HasSubstr;

Phase phase_of(ScheduleKind kind, std::int64_t warmup, double final_fraction) {
  Phase phase;
  phase.lr = 2.0;
  phase.schedule = kind;
  phase.warmup = warmup;
  phase.final_fraction = final_fraction;
  return phase;
}

/// The whole curve of a phase.
std::vector<double> curve(const Phase& phase, std::int64_t steps) {
  std::vector<double> values;
  for (std::int64_t step = 0; step < steps; ++step)
    values.push_back(learning_rate(phase, step, steps));
  return values;
}

void expect_curve(const Phase& phase, const std::vector<double>& expected) {
  const auto steps = static_cast<std::int64_t>(expected.size());
  test::expect_close(curve(phase, steps), expected, kClosedFormF64, name_of(phase.schedule));
}

TEST(Schedule, CurvesByHand) {
  expect_curve(phase_of(ScheduleKind::kConstant, 0, 0.1), {2, 2, 2});
  expect_curve(phase_of(ScheduleKind::kConstant, 4, 0.1), {0.5, 1, 1.5, 2, 2, 2});
  expect_curve(phase_of(ScheduleKind::kLinear, 2, 0.0), {1, 2, 2, 1.5, 1, 0.5, 0});
  expect_curve(phase_of(ScheduleKind::kLinear, 0, 0.5), {2, 1.75, 1.5, 1.25, 1});
  expect_curve(phase_of(ScheduleKind::kCosine, 1, 0.2),
               {2, 2, 2 * (0.2 + 0.4 * (1 + std::sqrt(0.5))), 1.2,
                2 * (0.2 + 0.4 * (1 - std::sqrt(0.5))), 0.4});
  expect_curve(phase_of(ScheduleKind::kPower, 2, 0.0),
               {1, 2, 2, 2 / std::sqrt(1.5), 2 / std::sqrt(2.0), 2 / std::sqrt(2.5)});
  expect_curve(phase_of(ScheduleKind::kPower, 1, 0.5),
               {2, 2, 2 / std::sqrt(2.0), 2 / std::sqrt(3.0), 1, 1});
}

TEST(Schedule, WsdComesDownToTheFinalFractionAtTheLastStep) {
  Phase phase = phase_of(ScheduleKind::kWsd, 2, 0.1);
  phase.decay_fraction = 0.4;
  expect_curve(phase, {1, 2, 2, 2, 2, 2, 1.55, 1.1, 0.65, 0.2});
  phase.decay_shape = DecayShape::kOneMinusSqrt;
  const auto at = [](double x) { return 2 * (0.1 + 0.9 * (1 - std::sqrt(x))); };
  expect_curve(phase, {1, 2, 2, 2, 2, 2, at(0.25), at(0.5), at(0.75), 0.2});
  phase.decay_fraction = 0.0;
  expect_curve(phase, {1, 2, 2, 2, 2});
  phase.decay_fraction = 1.0;
  phase.warmup = 0;
  phase.decay_shape = DecayShape::kLinear;
  phase.final_fraction = 0.0;
  expect_curve(phase, {1.5, 1, 0.5, 0});
}

TEST(Schedule, EdgesOfLength) {
  for (const auto kind : {ScheduleKind::kConstant, ScheduleKind::kWsd, ScheduleKind::kCosine,
                          ScheduleKind::kLinear, ScheduleKind::kPower}) {
    Phase phase = phase_of(kind, 0, 0.25);
    phase.decay_fraction = 0.5;
    expect_curve(phase, {2});
    phase.warmup = 8;
    expect_curve(phase, {0.25, 0.5, 0.75});
    phase.warmup = 3;
    EXPECT_EQ(learning_rate(phase, 2, 100), 2.0) << "the last step of the warm-up has the peak";
    for (const double lr : curve(phase, 57)) {
      EXPECT_GT(lr, 0.0);
      EXPECT_LE(lr, 2.0);
    }
  }
}

Phase steps_phase(std::int64_t steps, double lr) {
  Phase phase = phase_of(ScheduleKind::kConstant, 0, 1.0);
  phase.steps = steps;
  phase.lr = lr;
  return phase;
}

TEST(Plan, PhasesFollowEachOther) {
  Phase first = steps_phase(3, 1.0);
  first.batch_tokens = 32;
  Phase second;
  second.lr = 0.5;
  second.schedule = ScheduleKind::kConstant;
  second.tokens = 100;
  Phase rest = steps_phase(1, 0.25);
  rest.steps.reset();
  rest.batch_tokens = 128;
  const Plan plan({first, second, rest}, 48, 16, 10, std::nullopt);
  EXPECT_EQ(plan.num_steps(), 10);
  ASSERT_EQ(plan.phases().size(), 3);
  EXPECT_EQ(plan.phases()[1].begin_step, 3);
  EXPECT_EQ(plan.phases()[1].end_step, 6) << "100 tokens are three steps of 48";
  const std::vector<double> lr = {1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25};
  const std::vector<std::int64_t> batch = {2, 2, 2, 3, 3, 3, 8, 8, 8, 8};
  std::int64_t position = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    const auto i = static_cast<std::size_t>(step);
    EXPECT_EQ(plan.learning_rate(step), lr[i]) << step;
    EXPECT_EQ(plan.batch_sequences(step), batch[i]) << step;
    EXPECT_EQ(plan.data_position(step), position) << step;
    position += batch[i];
  }
  EXPECT_EQ(plan.data_position(10), position);
  EXPECT_EQ(plan.max_batch_sequences(), 8);
}

TEST(Plan, ARunEndsAtStepsOrTokensOrThePhases) {
  const std::vector<Phase> phases = {steps_phase(5, 1.0)};
  EXPECT_EQ(Plan(phases, 32, 16, 3, std::nullopt).num_steps(), 3);
  EXPECT_EQ(Plan(phases, 32, 16, 99, std::nullopt).num_steps(), 5);
  EXPECT_EQ(Plan(phases, 32, 16, std::nullopt, 33).num_steps(), 2);
  EXPECT_EQ(Plan(phases, 32, 16, std::nullopt, 64).num_steps(), 2);
  EXPECT_EQ(Plan(phases, 32, 16, 1, 64).num_steps(), 1);
  const Plan none(phases, 32, 16, 0, std::nullopt);
  EXPECT_EQ(none.num_steps(), 0);
  EXPECT_EQ(none.data_position(0), 0);
}

TEST(Plan, AShorterRunIsTheBeginningOfALongerOne) {
  Phase phase = phase_of(ScheduleKind::kCosine, 2, 0.1);
  phase.steps = 20;
  const Plan whole({phase}, 32, 16, 20, std::nullopt);
  const Plan cut({phase}, 32, 16, 7, std::nullopt);
  for (std::int64_t step = 0; step < 7; ++step) {
    EXPECT_EQ(cut.learning_rate(step), whole.learning_rate(step));
  }
  // An open phase is as long as the run.
  phase.steps.reset();
  const Plan open({phase}, 32, 16, 7, std::nullopt);
  test::expect_close(open.learning_rate(6), 0.2, kClosedFormF64, "last step");
}

TEST(Plan, NamesThePhaseThatIsWrong) {
  const auto refusal = [](auto&& change) {
    std::vector<Phase> phases = {steps_phase(5, 1.0), steps_phase(5, 1.0)};
    change(phases[1]);
    phases.push_back(steps_phase(5, 1.0));
    return test::error_of([&] { Plan(phases, 32, 16, 100, std::nullopt); });
  };
  EXPECT_THAT(refusal([](Phase& p) { p.steps = 0; }), HasSubstr("optim.phases[1]: steps = 0"));
  EXPECT_THAT(refusal([](Phase& p) { p.tokens = 7; }), HasSubstr("steps or tokens, not both"));
  EXPECT_THAT(refusal([](Phase& p) { p.steps.reset(); }), HasSubstr("only the last phase"));
  EXPECT_THAT(refusal([](Phase& p) { p.steps.reset(), p.tokens = 0; }), HasSubstr("tokens = 0"));
  EXPECT_THAT(refusal([](Phase& p) { p.warmup = -1; }), HasSubstr("warmup = -1"));
  EXPECT_THAT(refusal([](Phase& p) { p.batch_tokens = 40; }),
              HasSubstr("40 tokens is no multiple"));
  EXPECT_THAT(refusal([](Phase& p) { p.batch_tokens = -16; }), HasSubstr("batch_tokens = -16"));
  EXPECT_THAT(refusal([](Phase& p) { p.final_fraction = 1.5; }), HasSubstr("final_fraction = 1.5"));
  EXPECT_THAT(refusal([](Phase& p) { p.decay_fraction = -0.5; }), HasSubstr("decay_fraction"));
  EXPECT_THAT(refusal([](Phase& p) { p.lr = std::numeric_limits<double>::infinity(); }),
              HasSubstr("lr = inf"));
  EXPECT_THAT(refusal([](Phase& p) { p.lr = std::nan(""); }), HasSubstr("lr = nan"));
  EXPECT_THROW(Plan({steps_phase(5, 1.0)}, 40, 16, 10, std::nullopt), InputError);
  EXPECT_THROW(Plan({steps_phase(5, 1.0)}, 32, 16, std::nullopt, std::nullopt), Error);
}

TEST(Plan, PhasesBeyondTheEndOfTheRunAreCheckedToo) {
  Phase first;
  first.lr = 1.0;
  first.steps = 10;
  Phase never = first;
  never.batch_tokens = 100;
  EXPECT_THROW(Plan({first, never}, 64, 32, 10, std::nullopt), InputError);
  never.batch_tokens = 96;
  EXPECT_EQ(Plan({first, never}, 64, 32, 10, std::nullopt).num_steps(), 10);
}

TEST(Schedule, NamesAreThoseOfTheConfiguration) {
  EXPECT_EQ(name_of(ScheduleKind::kConstant), "constant");
  EXPECT_EQ(name_of(ScheduleKind::kWsd), "wsd");
  EXPECT_EQ(name_of(ScheduleKind::kCosine), "cosine");
  EXPECT_EQ(name_of(ScheduleKind::kLinear), "linear");
  EXPECT_EQ(name_of(ScheduleKind::kPower), "power");
  EXPECT_EQ(name_of(DecayShape::kLinear), "linear");
  EXPECT_EQ(name_of(DecayShape::kOneMinusSqrt), "one_minus_sqrt");
}

}  // namespace
}  // namespace ulmus::optim
