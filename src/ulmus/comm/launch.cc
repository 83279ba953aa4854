#include "ulmus/comm/launch.h"

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

}  // namespace

std::optional<int> launched_ranks() {
  // Open MPI; MPICH and its kin, srun --mpi=pmi2; any srun (but not the batch script itself).
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const std::optional<int> number = number_in(variable);
    if (number) return number;
  }
  return std::nullopt;
}

bool is_launched() {
  if (environment_variable("OMPI_COMM_WORLD_SIZE") || environment_variable("PMIX_RANK") ||
      environment_variable("PMI_SIZE")) {
    return true;
  }
  // srun without an MPI plugin: one task may be anything, several are meant to be ranks.
  return number_in("SLURM_STEP_NUM_TASKS").value_or(1) > 1;
}

}  // namespace ulmus::comm
