#include <fmt/format.h>

#include "ulmus/cli/commands.h"
#include "ulmus/cli/output.h"
#include "ulmus/comm/mpi_session.h"
#include "ulmus/ops/cpu/blas.h"

namespace ulmus::cli {

int print_version() {
  print_result(fmt::format("ulmus {}\nback ends: cpu, ref\nBLAS: OpenBLAS, kernels {}\nMPI: {}\n",
                           ULMUS_VERSION, ops::cpu::blas_core_name(),
                           comm::MpiSession::library_version()));
  return 0;
}

}  // namespace ulmus::cli
