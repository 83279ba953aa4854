#pragma once

#include <memory>

#include "ulmus/comm/mpi/mpi_call.h"
#include "ulmus/comm/transport.h"

namespace ulmus::comm {

/// Ranks are processes: non-blocking messages between pairs on a communicator of its own, notices
/// on another. Collective.
std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<MpiState> state);

}  // namespace ulmus::comm
