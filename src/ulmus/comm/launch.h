#pragma once

#include <optional>

namespace ulmus::comm {

/// Whether mpirun, srun or another launcher of MPI programs started this process. Only then is MPI
/// initialised: a program that was started by hand is one process and needs none.
bool is_launched();

/// How many processes the launcher says it started, if it does.
std::optional<int> launched_ranks();

/// This process's rank before MPI knows it, if the launcher says so.
std::optional<int> launched_rank();

}  // namespace ulmus::comm
