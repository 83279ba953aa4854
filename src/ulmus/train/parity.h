#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/train/config.h"
#include "ulmus/train/parity_trace.h"

namespace ulmus::train {

/// One combination of the [parallel] keys, with what the trainer says to it.
struct ParityLayout {
  ParallelConfig keys;
  std::string name;                    ///< "expert=2 exchange=all_to_all"
  std::optional<std::string> refusal;  ///< why the trainer does not take it
};

/// Every combination for so many ranks, legal and refused: the keys and their values by brute
/// force, layout_of and Config::validate as judges.
std::vector<ParityLayout> parity_layouts(const Config& config, int ranks);

/// A tensor of a layout that is not the one-rank run's.
struct ParityDifference {
  std::string tensor;
  double error = 0.0;  ///< as the tolerance measures it
  double tolerance = 0.0;
};

/// One layout in one precision.
struct ParityRow {
  std::string layout;
  std::string precision;  ///< "fp64", "fp32"
  double worst = 0.0;     ///< largest error / tolerance of all tensors
  std::string worst_tensor;
  std::optional<ParityDifference> first_difference;
  double smallest_margin = 0.0;  ///< of the one-rank run's routes (KeptRoutes)
};

struct ParityReport {
  int ranks = 0;
  int legal = 0;    ///< combinations that the trainer takes
  int refused = 0;  ///< ... and refuses
  int run = 0;      ///< layouts that were run
  std::vector<ParityRow> rows;
  bool is_equal() const;
};

/// Runs a function on all ranks, each with its world: threads of this process, or the processes
/// that were started together.
using OnRanks = std::function<void(const std::function<void(comm::World&)>&)>;

struct ParityOptions {
  int ranks = 1;
  std::vector<std::string> layouts = {};  ///< names of ParityLayout; empty: all legal ones
  ParityScene scene = {};
  ParityFaults faults = {};
  std::function<void(const ParityRow&)> progress = [](const ParityRow&) {};
};

/// Proves layouts: two steps under each and on one rank, in f64 on the oracle kernels (every tensor
/// to 1e-9 of its largest magnitude), then in the configuration's precision with the expert ids of
/// the one-rank run replayed in step 2 (gradients to 1e-5 of the tensor's norm; weights by the
/// error of the step's update / learning rate where |g| > 1e-4 max |g|). Every rank's numbers
/// count, and every rank returns the same report. InputError for a layout that does not exist or is
/// refused.
ParityReport run_parity(const Config& config, const ParityOptions& options,
                        const OnRanks& on_ranks);

}  // namespace ulmus::train
