#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/train/config.h"
#include "ulmus/train/reporter.h"

namespace ulmus::cli {

/// What a command does on each rank with a configuration; returns the exit status.
using RankBody = std::function<int(const train::Config& config, comm::World& world)>;

/// Reads the configuration and runs `body` on all ranks that mpirun or srun started, or in this
/// process alone. Returns the exit status. An error of one rank ends all of them, with its status.
/// Where all ranks have the same, whether they agreed about it or each met it by itself within 2 s,
/// the first one tells it, once (comm/ending.h).
int run_on_ranks(const std::string& config_path, const std::vector<std::string>& overrides,
                 const RankBody& body);

/// The terminal's on the first rank, silence on the others, whose log files keep everything.
std::unique_ptr<train::Reporter> make_reporter(const comm::World& world);

/// Whether this rank prints results.
bool prints(const comm::World& world);

/// run.timeout_s.
comm::World::Options timeout_of(const train::Config& config);

/// InputError when several ranks were started for a command that runs in one process.
void refuse_ranks();

}  // namespace ulmus::cli
