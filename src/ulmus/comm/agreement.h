#pragma once

#include <functional>

#include "ulmus/comm/communicator.h"

namespace ulmus::comm {

/// Runs `body` on every rank of the group, then throws on all of them when it threw on any: an
/// Error with the message and exit status of the lowest rank that failed, the same everywhere (in a
/// group of one, the exception itself). So nobody goes on alone, and one rank can tell the user.
/// Collective. A CommError goes through as it is.
void agree(Communicator& group, const std::function<void()>& body);

}  // namespace ulmus::comm
