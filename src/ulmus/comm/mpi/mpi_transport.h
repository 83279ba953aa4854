#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <string_view>

#include "ulmus/comm/transport.h"

namespace ulmus::comm {

/// What the session shares with its transports.
struct MpiState {
  int rank = 0;
  int size = 1;
  int local_ranks = 1;
  int num_exceptions = 0;   // on their way when the session began
  bool has_failed = false;  // no collective call any more
};

/// "what: the library's words"
std::string mpi_error_text(int code, std::string_view what);

/// Error unless an MPI call succeeded; notes the failure in `state`.
void check_mpi(int code, std::string_view what, MpiState& state);

/// Ranks are processes: non-blocking messages between pairs on a communicator of its own, notices
/// on another. Collective.
std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<MpiState> state);

}  // namespace ulmus::comm
