#pragma once

#include <memory>
#include <string>

#include "ulmus/comm/transport.h"

namespace ulmus::comm {

struct MpiState;

/// MPI from its initialisation to its end: at most one in a process's life, used by the thread that
/// made it. In a program built without MPI the constructor throws and names the CMake option.
class MpiSession {
 public:
  /// Collective over all processes that were started together. Error when MPI sees fewer of them
  /// than the launcher says (another MPI than the program's started it).
  MpiSession();
  /// Finalises MPI together with the other ranks. After a failure (a notice was posted or received,
  /// MPI returned an error, or an exception is on its way) it does not, since the others may never
  /// come: then abort() has to end the process.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  /// Ranks on this machine, this one included: they share its cores.
  int local_ranks() const;
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
