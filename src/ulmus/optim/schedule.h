#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ulmus::optim {

/// Shape of the learning rate over a phase of n steps, as a factor on its peak. With w steps of
/// warm-up and s = 0 for the first step:
///
///   s < w      (s + 1) / w, whatever the shape
///   kConstant  1
///   kWsd       1, and over the last decay_fraction of the phase down to f (DecayShape); the first
///              step of the decay is already below 1, the last step of the phase has f
///   kCosine    f + (1 - f) (1 + cos(pi x)) / 2
///   kLinear    1 + (f - 1) x
///   kPower     (1 + (s - w) / max(w, 1))^(-1/2), at least f
///
/// x = (s - w) / (n - 1 - w) is 0 at the end of the warm-up and 1 at the last step; f is
/// final_fraction. A phase of a single step has its peak.
enum class ScheduleKind : std::uint8_t { kConstant, kWsd, kCosine, kLinear, kPower };

/// "constant", "wsd", "cosine", "linear", "power".
std::string_view name_of(ScheduleKind kind);

/// How kWsd comes down; x in (0, 1] is the part of the decay that is done.
///   kLinear        1 + (f - 1) x
///   kOneMinusSqrt  f + (1 - f) (1 - sqrt(x))  (Haegele et al. 2024)
enum class DecayShape : std::uint8_t { kLinear, kOneMinusSqrt };

/// "linear", "one_minus_sqrt".
std::string_view name_of(DecayShape shape);

/// A stretch of training with one learning-rate curve and one batch size.
struct Phase {
  /// Optimizer steps of the phase, or tokens (see below); the last phase may leave both open: it
  /// then takes the rest of the run.
  std::optional<std::int64_t> steps;
  double lr = 0.0;  ///< peak
  ScheduleKind schedule = ScheduleKind::kCosine;
  std::int64_t warmup = 0;        ///< steps of linear rise from lr / warmup to lr
  double final_fraction = 0.1;    ///< f
  double decay_fraction = 0.2;    ///< of the phase, for kWsd
  std::int64_t batch_tokens = 0;  ///< of a step; 0: batch.tokens
  /// Instead of steps: the phase ends with the step that reaches so many tokens.
  std::optional<std::int64_t> tokens;
  DecayShape decay_shape = DecayShape::kLinear;
  friend bool operator==(const Phase&, const Phase&) = default;
};

/// InputError naming `place` and the field when a number is out of its range, or both steps and
/// tokens are given.
void validate(const Phase& phase, std::string_view place);

/// Learning rate of step `step` (0 is the first) of a phase of `steps` steps.
double learning_rate(const Phase& phase, std::int64_t step, std::int64_t steps);

/// One phase as it falls into a run.
struct PlacedPhase {
  Phase phase;
  std::int64_t begin_step = 0;      ///< first step, counted from 0
  std::int64_t end_step = 0;        ///< one past the last
  std::int64_t begin_position = 0;  ///< sequences consumed before it
  std::int64_t batch_sequences = 0;
  /// Steps over which its curve runs: more than end_step - begin_step where the run's end cuts the
  /// phase short, so that a shorter run is the beginning of a longer one.
  std::int64_t curve_steps = 0;
};

/// Which phase, learning rate and data each step of a run has: pure functions of the step.
class Plan {
 public:
  /// Phases in order; the run ends at `max_steps`, or at the first step that has seen `max_tokens`,
  /// whichever comes first, or with the last phase. InputError naming the phase when one is empty
  /// or not valid, its batch is no multiple of `sequence_length`, or an open phase is not the last.
  Plan(const std::vector<Phase>& phases, std::int64_t batch_tokens, std::int64_t sequence_length,
       std::optional<std::int64_t> max_steps, std::optional<std::int64_t> max_tokens);

  std::int64_t num_steps() const { return phases_.empty() ? 0 : phases_.back().end_step; }
  const std::vector<PlacedPhase>& phases() const { return phases_; }
  /// The last phase for steps beyond the run.
  const PlacedPhase& phase_of(std::int64_t step) const;
  double learning_rate(std::int64_t step) const;
  /// Sequences that step `step` takes, and how many were taken before it.
  std::int64_t batch_sequences(std::int64_t step) const { return phase_of(step).batch_sequences; }
  std::int64_t data_position(std::int64_t step) const;
  /// Largest batch of the run.
  std::int64_t max_batch_sequences() const;

 private:
  std::vector<PlacedPhase> phases_;
};

}  // namespace ulmus::optim
