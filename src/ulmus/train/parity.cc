#include "ulmus/train/parity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

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

/// Weights of the run's precision: where the gradient of the same step is not noise.
Measured measure_weights(const TracedTensor& mine, const TracedTensor& theirs,
                         const std::vector<double>& gradient, double lr) {
  const double used = kUsedGradient * largest(gradient);
  double most = 0.0;
  for (std::size_t i = 0; i < mine.values.size(); ++i) {
    const double error = std::abs(mine.values[i] - theirs.values[i]) / lr;
    if (std::isnan(error)) return {HUGE_VAL, kUpdateOfLr};
    if (std::abs(gradient[i]) > used) most = std::max(most, error);
  }
  return {most, kUpdateOfLr};
}

Measured measure(const TracedTensor& mine, const TracedTensor& theirs,
                 const std::vector<double>& gradient, double lr, Compute compute) {
  using Traced = TracedTensor::Kind;
  if (theirs.kind == Traced::kCount) return {largest_difference(mine.values, theirs.values), 0.0};
  if (compute == Compute::kFp64) {
    return {largest_difference(mine.values, theirs.values), kF64OfLargest * largest(theirs.values)};
  }
  switch (theirs.kind) {
    case Traced::kGradient:
      return {norm_of_difference(mine.values, theirs.values), kF32OfNorm * norm(theirs.values)};
    case Traced::kWeight:
      return measure_weights(mine, theirs, gradient, lr);
    default:
      return {largest_difference(mine.values, theirs.values), kF32Metric * largest(theirs.values)};
  }
}

/// The gradient that belongs to a weight: "step 1 weight x" -> "step 1 gradient x".
std::string gradient_name(const std::string& weight) {
  constexpr std::string_view kWeight = " weight ";
  const std::size_t at = weight.find(kWeight);
  return weight.substr(0, at) + " gradient " + weight.substr(at + kWeight.size());
}

const std::vector<double>& gradient_of(const TracedTensor& tensor, const Trace& trace) {
  static const std::vector<double> kNone;
  if (tensor.kind != TracedTensor::Kind::kWeight) return kNone;
  const std::string name = gradient_name(tensor.name);
  const auto found = std::ranges::find_if(
      trace.tensors, [&](const TracedTensor& other) { return other.name == name; });
  ULMUS_CHECK(found != trace.tensors.end(), name);
  return found->values;
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

ParityRow run_layout(const ParityLayout& layout, const Reference& reference,
                     const ParityOptions& options, const OnRanks& on_ranks) {
  Config config = reference.config;
  config.parallel = layout.keys;
  ParityRow row;
  std::mutex mutex;
  on_ranks([&](comm::World& world) {
    // Near ties may tip over from the second step on, when weights differ in their last bits.
    constexpr std::int64_t kFirstReplayed = 1;
    KeptRoutes replay(reference.routes, kFirstReplayed);
    nn::RouteTape* tape = config.compute == Compute::kFp64 ? nullptr : &replay;
    const Trace trace = trace_steps(config, world, options.scene, tape, options.faults);
    const std::scoped_lock lock(mutex);  // ranks may be threads; all of them have the same trace
    row = compare_traces(trace, reference.trace, config.compute);
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

ParityRow compare_traces(const Trace& trace, const Trace& reference, Compute compute) {
  ULMUS_CHECK(trace.tensors.size() == reference.tensors.size(), trace.tensors.size(), " and ",
              reference.tensors.size(), " tensors");
  ParityRow row;
  for (std::size_t i = 0; i < trace.tensors.size(); ++i) {
    const TracedTensor& mine = trace.tensors[i];
    const TracedTensor& theirs = reference.tensors[i];
    ULMUS_CHECK(mine.name == theirs.name && mine.values.size() == theirs.values.size(), mine.name,
                " and ", theirs.name);
    const Measured measured =
        measure(mine, theirs, gradient_of(theirs, reference), trace.lr, compute);
    if (!measured.is_within() && !row.first_difference) {
      row.first_difference = {mine.name, measured.error, measured.tolerance};
    }
    if (measured.ratio() > row.worst || row.worst_tensor.empty()) {
      row.worst = measured.ratio();
      row.worst_tensor = mine.name;
    }
  }
  return row;
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
