#include "ulmus/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ulmus/base/check.h"

namespace ulmus::optim {

namespace {

/// x in [0, 1] after the warm-up: 0 at its end, 1 at the phase's last step.
double progress(std::int64_t step, std::int64_t begin, std::int64_t steps) {
  const std::int64_t length = steps - 1 - begin;
  if (length <= 0) return steps <= 1 ? 0.0 : 1.0;
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(length), 0.0, 1.0);
}

double wsd_factor(const Phase& phase, std::int64_t step, std::int64_t steps) {
  const auto decay =
      static_cast<std::int64_t>(std::llround(phase.decay_fraction * static_cast<double>(steps)));
  const std::int64_t begin = steps - decay;
  if (step < begin || decay == 0 || steps <= 1) return 1.0;
  const double x = static_cast<double>(step - begin + 1) / static_cast<double>(decay);
  const double f = phase.final_fraction;
  if (phase.decay_shape == DecayShape::kOneMinusSqrt) return f + (1.0 - f) * (1.0 - std::sqrt(x));
  return 1.0 + (f - 1.0) * x;
}

double factor_after_warmup(const Phase& phase, std::int64_t step, std::int64_t steps) {
  const double f = phase.final_fraction;
  switch (phase.schedule) {
    case ScheduleKind::kConstant:
      return 1.0;
    case ScheduleKind::kWsd:
      return wsd_factor(phase, step, steps);
    case ScheduleKind::kCosine:
      return f + (1.0 - f) * 0.5 *
                     (1.0 + std::cos(std::numbers::pi * progress(step, phase.warmup, steps)));
    case ScheduleKind::kLinear:
      return 1.0 + (f - 1.0) * progress(step, phase.warmup, steps);
    case ScheduleKind::kPower: {
      const auto warmup = static_cast<double>(std::max<std::int64_t>(phase.warmup, 1));
      return std::max(f, 1.0 / std::sqrt(1.0 + static_cast<double>(step - phase.warmup) / warmup));
    }
  }
  return 1.0;
}

std::int64_t step_tokens(const Phase& phase, std::int64_t batch_tokens) {
  return phase.batch_tokens > 0 ? phase.batch_tokens : batch_tokens;
}

/// All of them, also those beyond the end of the run: a longer run would reach them.
void check_phases(const std::vector<Phase>& phases, std::int64_t batch_tokens,
                  std::int64_t sequence_length) {
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    validate(phase, concat("optim.phases[", i, "]"));
    const std::int64_t tokens = step_tokens(phase, batch_tokens);
    if (tokens <= 0 || tokens % sequence_length != 0) {
      fail_input("optim.phases[", i, "]: a step of ", tokens,
                 " tokens is no multiple of data.sequence_length = ", sequence_length);
    }
    const bool is_open = !phase.steps && !phase.tokens;
    if (is_open && i + 1 != phases.size()) {
      fail_input("optim.phases[", i, "]: only the last phase may leave its length open");
    }
  }
}

/// Steps of a phase; nothing when it is open.
std::optional<std::int64_t> steps_of(const Phase& phase, std::int64_t batch_tokens) {
  if (phase.tokens) return (*phase.tokens - 1) / batch_tokens + 1;
  return phase.steps;
}

}  // namespace

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kWsd:
      return "wsd";
    case ScheduleKind::kCosine:
      return "cosine";
    case ScheduleKind::kLinear:
      return "linear";
    case ScheduleKind::kPower:
      return "power";
  }
  return "?";
}

std::string_view name_of(DecayShape shape) {
  return shape == DecayShape::kLinear ? "linear" : "one_minus_sqrt";
}

void validate(const Phase& phase, std::string_view place) {
  const auto check_fraction = [&](double value, std::string_view name) {
    if (value >= 0.0 && value <= 1.0) return;
    fail_input(place, ": ", name, " = ", value, ", allowed are 0 to 1");
  };
  const auto check_least = [&](std::int64_t value, std::int64_t least, std::string_view name) {
    if (value < least) fail_input(place, ": ", name, " = ", value, ", at least ", least);
  };
  if (phase.steps && phase.tokens) fail_input(place, ": either steps or tokens, not both");
  check_least(phase.steps.value_or(1), 1, "steps");
  check_least(phase.tokens.value_or(1), 1, "tokens");
  check_least(phase.warmup, 0, "warmup");
  check_least(phase.batch_tokens, 0, "batch_tokens");
  if (!(phase.lr >= 0.0 && std::isfinite(phase.lr))) {
    fail_input(place, ": lr = ", phase.lr, ", must be finite and not negative");
  }
  check_fraction(phase.final_fraction, "final_fraction");
  check_fraction(phase.decay_fraction, "decay_fraction");
}

double learning_rate(const Phase& phase, std::int64_t step, std::int64_t steps) {
  if (step < phase.warmup) {
    return phase.lr * static_cast<double>(step + 1) / static_cast<double>(phase.warmup);
  }
  return phase.lr * factor_after_warmup(phase, step, steps);
}

Plan::Plan(const std::vector<Phase>& phases, std::int64_t batch_tokens,
           std::int64_t sequence_length, std::optional<std::int64_t> max_steps,
           std::optional<std::int64_t> max_tokens) {
  ULMUS_CHECK(sequence_length > 0, "sequence_length ", sequence_length);
  ULMUS_CHECK(max_steps || max_tokens, "a run without an end");
  check_phases(phases, batch_tokens, sequence_length);
  std::int64_t step = 0;
  std::int64_t position = 0;
  for (const Phase& phase : phases) {
    const std::int64_t tokens = step_tokens(phase, batch_tokens);
    const std::optional<std::int64_t> own_steps = steps_of(phase, tokens);
    const std::int64_t batch = tokens / sequence_length;
    std::int64_t steps = own_steps.value_or(std::numeric_limits<std::int64_t>::max());
    if (max_steps) steps = std::min(steps, *max_steps - step);
    if (max_tokens) {
      const std::int64_t left = *max_tokens - position * sequence_length;
      steps = std::min(steps, left <= 0 ? 0 : (left - 1) / tokens + 1);
    }
    if (steps <= 0) break;
    phases_.push_back({.phase = phase,
                       .begin_step = step,
                       .end_step = step + steps,
                       .begin_position = position,
                       .batch_sequences = batch,
                       .curve_steps = own_steps.value_or(steps)});
    step += steps;
    position += steps * batch;
  }
}

const PlacedPhase& Plan::phase_of(std::int64_t step) const {
  ULMUS_CHECK(!phases_.empty() && step >= 0, "step ", step, " of a run of ", num_steps());
  const auto found = std::find_if(phases_.begin(), phases_.end(), [&](const PlacedPhase& placed) {
    return step < placed.end_step;
  });
  return found == phases_.end() ? phases_.back() : *found;
}

double Plan::learning_rate(std::int64_t step) const {
  const PlacedPhase& placed = phase_of(step);
  return optim::learning_rate(placed.phase, step - placed.begin_step, placed.curve_steps);
}

std::int64_t Plan::data_position(std::int64_t step) const {
  if (phases_.empty()) return 0;
  const PlacedPhase& placed = phase_of(step);
  return placed.begin_position + (step - placed.begin_step) * placed.batch_sequences;
}

std::int64_t Plan::max_batch_sequences() const {
  std::int64_t largest = 0;
  for (const PlacedPhase& placed : phases_)
    largest = std::max(largest, placed.batch_sequences);
  return largest;
}

}  // namespace ulmus::optim
