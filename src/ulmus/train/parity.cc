#include "ulmus/train/parity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <span>

#include "ulmus/base/error.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/train/layout.h"

namespace ulmus::train {

namespace {

/// Sums in another order, in f64, over at most thousands of terms.
constexpr double kF64OfLargest = 1e-9;
/// Gradients of f32 sums in another order.
constexpr double kF32OfNorm = 1e-5;
/// Losses, norms, scores in the run's precision.
constexpr double kF32Metric = 1e-5;
/// Elements whose gradient is a smaller part of the tensor's largest are noise over sqrt(noise).
constexpr double kUsedGradient = 1e-4;
/// An AdamW update is about one learning rate, whatever the gradient's size, and its error that of
/// g / |g|: f32 noise of 1e-6 of the largest gradient over kUsedGradient of it, and twice that.
constexpr double kUpdateOfLr = 2e-2;

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values)
    most = std::max(most, std::abs(value));
  return most;
}

double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

/// Largest |a - b|; infinite where a number is not finite.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    most = difference <= most ? most : std::isnan(difference) ? HUGE_VAL : difference;
  }
  return most;
}

double norm_of_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::isfinite(sum) ? std::sqrt(sum) : HUGE_VAL;
}

/// Error of a tensor and what it may be.
struct Measured {
  double error = 0.0;
  double tolerance = 0.0;
  bool is_within() const { return error <= tolerance; }
  double ratio() const { return error == 0.0 ? 0.0 : error / tolerance; }
};

/// The tensor of the same step that `tensor`, a weight, is the result of; or of an earlier step.
const TracedTensor* find_tensor(const Trace& trace, std::int64_t step, TracedTensor::Kind kind,
                                int parameter) {
  const auto found = std::ranges::find_if(trace.tensors, [&](const TracedTensor& tensor) {
    return tensor.step == step && tensor.kind == kind && tensor.parameter == parameter;
  });
  return found == trace.tensors.end() ? nullptr : &*found;
}

/// Weights of the run's precision: the update of the step, where its gradient is not noise. The
/// first step's starts from the same weights everywhere.
Measured measure_update(std::size_t idx, const Trace& trace, const Trace& reference) {
  using Traced = TracedTensor::Kind;
  const TracedTensor& mine = trace.tensors[idx];
  const TracedTensor& theirs = reference.tensors[idx];
  const TracedTensor* gradient =
      find_tensor(reference, theirs.step, Traced::kGradient, theirs.parameter);
  ULMUS_CHECK(gradient != nullptr, theirs.name, " without its gradient");
  const auto before = [&](const Trace& run) {
    return find_tensor(run, theirs.step - 1, Traced::kWeight, theirs.parameter);
  };
  const TracedTensor* mine_before = before(trace);
  const TracedTensor* theirs_before = before(reference);
  const double used = kUsedGradient * largest(gradient->values);
  double most = 0.0;
  for (std::size_t i = 0; i < mine.values.size(); ++i) {
    double difference = mine.values[i] - theirs.values[i];
    if (std::isnan(difference)) return {HUGE_VAL, kUpdateOfLr};
    if (mine_before != nullptr) difference -= mine_before->values[i] - theirs_before->values[i];
    if (std::abs(gradient->values[i]) > used) most = std::max(most, std::abs(difference));
  }
  return {most == 0.0 ? 0.0 : most / theirs.lr, kUpdateOfLr};
}

Measured measure(std::size_t idx, const Trace& trace, const Trace& reference, Compute compute) {
  using Traced = TracedTensor::Kind;
  const std::vector<double>& mine = trace.tensors[idx].values;
  const std::vector<double>& theirs = reference.tensors[idx].values;
  const Traced kind = reference.tensors[idx].kind;
  if (kind == Traced::kCount) return {largest_difference(mine, theirs), 0.0};
  if (compute == Compute::kFp64) {
    return {largest_difference(mine, theirs), kF64OfLargest * largest(theirs)};
  }
  if (kind == Traced::kWeight) return measure_update(idx, trace, reference);
  if (kind == Traced::kGradient) {
    return {norm_of_difference(mine, theirs), kF32OfNorm * norm(theirs)};
  }
  return {largest_difference(mine, theirs), kF32Metric * largest(theirs)};
}

/// What one rank, or all of them, found; tensors by their place in the trace.
struct Comparison {
  static constexpr std::int64_t kNone = -1;
  std::int64_t first = kNone;  ///< that differs
  double error = 0.0;
  double tolerance = 0.0;
  std::int64_t nearest = kNone;  ///< to its tolerance
  double worst = 0.0;            ///< its error over its tolerance
};

/// The tensors of `trace` against those of `reference`, in order.
Comparison compare_traces(const Trace& trace, const Trace& reference, Compute compute) {
  ULMUS_CHECK(trace.tensors.size() == reference.tensors.size(), trace.tensors.size(), " and ",
              reference.tensors.size(), " tensors");
  Comparison found;
  for (std::size_t i = 0; i < trace.tensors.size(); ++i) {
    const TracedTensor& mine = trace.tensors[i];
    const TracedTensor& theirs = reference.tensors[i];
    ULMUS_CHECK(mine.name == theirs.name && mine.values.size() == theirs.values.size(), mine.name,
                " and ", theirs.name);
    const Measured measured = measure(i, trace, reference, compute);
    const auto idx = static_cast<std::int64_t>(i);
    if (!measured.is_within() && found.first == Comparison::kNone) {
      found.first = idx;
      found.error = measured.error;
      found.tolerance = measured.tolerance;
    }
    if (measured.ratio() > found.worst || found.nearest == Comparison::kNone) {
      found.worst = measured.ratio();
      found.nearest = idx;
    }
  }
  return found;
}

/// The same for all ranks together, on each of them: some numbers are a rank's own.
Comparison agreed(const Comparison& mine, comm::Communicator& ranks) {
  std::vector<Comparison> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather_bytes(std::as_writable_bytes(std::span(all)),
                         std::as_bytes(std::span(&mine, 1)));
  Comparison together = all.front();
  for (const Comparison& one : all) {
    const bool is_first = one.first != Comparison::kNone &&
                          (together.first == Comparison::kNone || one.first < together.first);
    if (is_first) {
      together.first = one.first;
      together.error = one.error;
      together.tolerance = one.tolerance;
    }
    if (one.worst > together.worst) {
      together.worst = one.worst;
      together.nearest = one.nearest;
    }
  }
  return together;
}

std::string name_of(Exchange exchange) {
  return exchange == Exchange::kLocal ? "local" : "all_to_all";
}

std::string name_of(const ParallelConfig& keys) {
  std::string name = concat("expert=", keys.expert, " exchange=", name_of(keys.used_exchange()));
  const bool is_resharded = keys.params == Params::kResharded;
  name += is_resharded ? " params=resharded" : " params=resident";
  if (keys.reshard == parallel::Reshard::kStep) name += " reshard=step";
  if (keys.prefetch) name += " prefetch=true";
  return name;
}

/// Every value of every key of [parallel], with every other; those of one value are left out. A
/// model without experts has no exchange to choose.
std::vector<ParallelConfig> all_combinations(const Config& config, int ranks) {
  using Choice = std::optional<Exchange>;
  const bool has_experts = config.model.dense_layers < config.model.layers;
  const std::vector<Choice> exchanges =
      has_experts ? std::vector<Choice>{Exchange::kLocal, Exchange::kAllToAll}
                  : std::vector<Choice>{std::nullopt};
  std::vector<ParallelConfig> all;
  for (int expert = 1; expert <= ranks; ++expert) {
    for (const Choice& exchange : exchanges) {
      for (const Params params : {Params::kResident, Params::kResharded}) {
        for (const auto reshard : {parallel::Reshard::kMicroBatch, parallel::Reshard::kStep}) {
          for (const bool prefetch : {false, true}) {
            all.push_back({.params = params,
                           .reshard = reshard,
                           .prefetch = prefetch,
                           .expert = expert,
                           .exchange = exchange});
          }
        }
      }
    }
  }
  return all;
}

/// The layouts that are to be run.
std::vector<ParityLayout> chosen_layouts(const std::vector<ParityLayout>& all,
                                         const std::vector<std::string>& names) {
  std::vector<ParityLayout> chosen;
  for (const ParityLayout& layout : all) {
    if (names.empty() && !layout.refusal) chosen.push_back(layout);
  }
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find_if(all, [&](const ParityLayout& layout) { return layout.name == name; });
    if (found == all.end()) {
      std::vector<std::string> known(all.size());
      std::ranges::transform(all, known.begin(), &ParityLayout::name);
      const std::string nearest = nearest_name(name, known);
      fail_input("--layouts: there is no layout \"", name, "\"",
                 nearest.empty() ? concat("; the first is \"", all.front().name, "\"")
                                 : concat("; the nearest is \"", nearest, "\""));
    }
    const ParityLayout& layout = *found;
    if (layout.refusal) fail_input("--layouts: \"", name, "\" is refused: ", *layout.refusal);
    chosen.push_back(layout);
  }
  return chosen;
}

/// The one-rank run in one precision.
struct Reference {
  Config config;
  KeptRoutes routes;
  Trace trace;
};

void fill_reference(Reference& reference, const Config& config, const ParityScene& scene,
                    Compute compute) {
  reference.config = config;
  reference.config.compute = compute;
  reference.config.parallel = {};
  comm::World alone(std::move(comm::make_thread_transports(1).front()), {});
  reference.trace = trace_steps(reference.config, alone, scene, &reference.routes);
}

ParityRow row_of(const Comparison& found, const Trace& trace) {
  const auto name = [&](std::int64_t idx) {
    return trace.tensors[static_cast<std::size_t>(idx)].name;
  };
  ParityRow row;
  row.worst = found.worst;
  row.worst_tensor = name(found.nearest);
  if (found.first != Comparison::kNone) {
    row.first_difference = {name(found.first), found.error, found.tolerance};
  }
  return row;
}

ParityRow run_layout(const ParityLayout& layout, const Reference& reference,
                     const ParityOptions& options, const OnRanks& on_ranks) {
  Config config = reference.config;
  config.parallel = layout.keys;
  ParityRow row;
  std::mutex mutex;
  on_ranks([&](comm::World& world) {  // ranks may be threads
    // Near ties may tip over from the second step on, when weights differ in their last bits.
    constexpr std::int64_t kFirstReplayed = 1;
    KeptRoutes replay(reference.routes, kFirstReplayed);
    nn::RouteTape* tape = config.compute == Compute::kFp64 ? nullptr : &replay;
    const Trace trace = trace_steps(config, world, options.scene, tape, options.faults);
    const Comparison found =
        agreed(compare_traces(trace, reference.trace, config.compute), world.all());
    const std::scoped_lock lock(mutex);
    row = row_of(found, trace);
  });
  row.layout = layout.name;
  row.precision = config.compute == Compute::kFp64 ? "fp64" : "fp32";
  row.smallest_margin = reference.routes.smallest_margin();
  return row;
}

}  // namespace

std::vector<ParityLayout> parity_layouts(const Config& config, int ranks) {
  std::vector<ParityLayout> layouts;
  for (const ParallelConfig& keys : all_combinations(config, ranks)) {
    ParityLayout layout = {.keys = keys, .name = name_of(keys), .refusal = std::nullopt};
    Config candidate = config;
    candidate.parallel = keys;
    try {
      candidate.validate();
      layout_of(candidate, ranks);
    } catch (const InputError& error) {
      layout.refusal = error.what();
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

bool ParityReport::is_equal() const {
  return std::ranges::none_of(
      rows, [](const ParityRow& row) { return row.first_difference.has_value(); });
}

ParityReport run_parity(const Config& config, const ParityOptions& options,
                        const OnRanks& on_ranks) {
  const std::vector<ParityLayout> all = parity_layouts(config, options.ranks);
  const std::vector<ParityLayout> chosen = chosen_layouts(all, options.layouts);
  ParityReport report;
  report.ranks = options.ranks;
  report.refused = static_cast<int>(std::ranges::count_if(
      all, [](const ParityLayout& layout) { return layout.refusal.has_value(); }));
  report.legal = static_cast<int>(all.size()) - report.refused;
  report.run = static_cast<int>(chosen.size());
  std::vector<Compute> precisions = {Compute::kFp64};
  if (config.compute != Compute::kFp64) precisions.push_back(config.compute);
  for (const Compute compute : precisions) {
    Reference reference;
    fill_reference(reference, config, options.scene, compute);
    for (const ParityLayout& layout : chosen) {
      report.rows.push_back(run_layout(layout, reference, options, on_ranks));
      options.progress(report.rows.back());
    }
  }
  return report;
}

}  // namespace ulmus::train
