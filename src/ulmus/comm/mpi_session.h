#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ulmus/comm/transport.h"

namespace ulmus::comm {

struct MpiState;

/// Is told which call of MPI does not return on which rank. Called by a thread of its own, because
/// the rank's cannot go on: ends the process. If it returns the program is terminated.
using GiveUp = std::function<void(std::string_view why)>;

/// How long MPI may wait for other ranks where it takes no deadline, and what happens then.
struct MpiPatience {
  /// Of the start: processes may be started one after the other.
  std::chrono::milliseconds start{60000};
  /// Of everything behind it: making transports, and the end. As long as operations may take.
  std::chrono::milliseconds timeout{60000};
  GiveUp give_up = {};
};

/// MPI from its initialisation to its end: at most one in a process's life, used by the thread that
/// made it. In a program built without MPI the constructor throws and names the CMake option.
class MpiSession {
 public:
  /// Collective over all processes that were started together. Error when MPI sees fewer of them
  /// than the launcher says (another MPI than the program's started it).
  explicit MpiSession(const MpiPatience& patience = {});
  /// Finalises MPI together with the other ranks. After a failure (a rank said that it fails or
  /// waits too long, a message was given up, MPI returned an error, or an exception is on its way)
  /// it does not, since the others may never come: then abort() has to end the process.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  /// Collective. Goes before the session.
  std::unique_ptr<Transport> make_transport();
  /// Ends the processes of all ranks.
  [[noreturn]] void abort(int exit_code);
  /// "Open MPI v4.1.4", or "none". Needs no session.
  static std::string library_version();

 private:
  std::shared_ptr<MpiState> state_;
};

}  // namespace ulmus::comm
