#pragma once

#include <cstdlib>

namespace ulmus::test {

/// What mpirun needs from the environment to be started by tests.
inline void allow_mpirun() {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // Open MPI keeps some of its memory to the end.
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
}

}  // namespace ulmus::test
