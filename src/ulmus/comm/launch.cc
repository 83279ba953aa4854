#include "ulmus/comm/launch.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "ulmus/base/env.h"

namespace ulmus::comm {

namespace {

std::optional<int> number_in(const char* variable) {
  const std::optional<std::string> text = environment_variable(variable);
  int number = 0;
  if (!text) return std::nullopt;
  const char* end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

/// What a launcher tells the processes it starts.
struct Launcher {
  const char* num_ranks;
  bool starts_ranks;  // even if it is one; else several tasks are meant to be ranks
};
constexpr std::array<Launcher, 3> kLaunchers = {{
    {"OMPI_COMM_WORLD_SIZE", true},  // Open MPI
    {"PMI_SIZE", true},              // MPICH and its kin, srun --mpi=pmi2
    // srun without an MPI plugin, where one task may be anything. Not SLURM_NTASKS, which the batch
    // script itself has.
    {"SLURM_STEP_NUM_TASKS", false},
}};
constexpr const char* kPmixRank = "PMIX_RANK";  // mpirun and srun --mpi=pmix

}  // namespace

std::optional<int> launched_ranks() {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> number = number_in(launcher.num_ranks);
    if (number) return number;
  }
  return std::nullopt;
}

std::optional<int> launched_rank() { return number_in(kPmixRank); }

bool is_launched() {
  return environment_variable(kPmixRank) ||
         std::any_of(kLaunchers.begin(), kLaunchers.end(), [](const Launcher& launcher) {
           return launcher.starts_ranks ? environment_variable(launcher.num_ranks).has_value()
                                        : number_in(launcher.num_ranks).value_or(1) > 1;
         });
}

}  // namespace ulmus::comm
