#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ulmus::optim {

/// Shape of the learning rate over a phase of n steps, after the warm-up; x in [0, 1] is the
/// fraction of the steps after the warm-up that lie behind, f the final fraction.
///   kConstant  1
///   kWsd       1, then linearly to f over the last decay_fraction of the phase
///   kCosine    f + (1 - f) (1 + cos(pi x)) / 2
///   kLinear    1 + (f - 1) x
///   kPower     (1 + steps after the warm-up / warm-up)^(-1/2), at least f
enum class ScheduleKind : std::uint8_t { kConstant, kWsd, kCosine, kLinear, kPower };

/// "constant", "wsd", "cosine", "linear", "power".
std::string_view name_of(ScheduleKind kind);

/// A stretch of training with one learning-rate curve and one batch size.
struct Phase {
  /// Optimizer steps of the phase; the last phase may leave it open: it then takes the rest of the
  /// run.
  std::optional<std::int64_t> steps;
  double lr = 0.0;  ///< peak
  ScheduleKind schedule = ScheduleKind::kCosine;
  std::int64_t warmup = 0;        ///< steps of linear rise from lr / warmup to lr
  double final_fraction = 0.1;    ///< f
  double decay_fraction = 0.2;    ///< of the phase, for kWsd
  std::int64_t batch_tokens = 0;  ///< of a step; 0: batch.tokens
  friend bool operator==(const Phase&, const Phase&) = default;
};

/// Learning rate of step `step` (0 is the first) of a phase of `steps` steps.
double learning_rate(const Phase& phase, std::int64_t step, std::int64_t steps);

/// One phase as it falls into a run.
struct PlacedPhase {
  Phase phase;
  std::int64_t begin_step = 0;      ///< first step, counted from 0
  std::int64_t end_step = 0;        ///< one past the last
  std::int64_t begin_position = 0;  ///< sequences consumed before it
  std::int64_t batch_sequences = 0;
};

/// Which phase, learning rate and data each step of a run has: pure functions of the step.
class Plan {
 public:
  /// Phases in order; the run ends at `max_steps`, or at the first step that has seen `max_tokens`,
  /// whichever comes first. InputError naming the phase when one is empty, its batch is no multiple
  /// of `sequence_length`, or an open phase is not the last.
  Plan(const std::vector<Phase>& phases, std::int64_t batch_tokens, std::int64_t sequence_length,
       std::optional<std::int64_t> max_steps, std::optional<std::int64_t> max_tokens);

  std::int64_t num_steps() const { return phases_.empty() ? 0 : phases_.back().end_step; }
  const std::vector<PlacedPhase>& phases() const { return phases_; }
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
