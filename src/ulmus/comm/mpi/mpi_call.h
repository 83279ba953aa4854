#pragma once

#include <mpi.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "ulmus/comm/mpi_session.h"

namespace ulmus::comm {

/// What the session shares with its transports.
struct MpiState {
  int rank = -1;  // not known yet
  int size = 1;
  int node_leader = 0;                  // lowest rank on this machine
  std::chrono::milliseconds timeout{};  // for calls without a deadline of their own
  GiveUp give_up;                       // when it is over
  int num_exceptions = 0;               // on their way when the session began
  bool has_failed = false;              // no collective call any more
};

/// "what: the library's words"
std::string mpi_error_text(int code, std::string_view what);

/// Error unless an MPI call succeeded; notes the failure in `state`.
void check_mpi(int code, std::string_view what, MpiState& state);

/// For destructors, which do not throw: logs to standard error that an MPI call failed, and notes
/// it in `state`.
void log_mpi(int code, std::string_view what, MpiState& state) noexcept;

/// Stands by while a call waits for other ranks that MPI gives no deadline: when it has not
/// returned after the state's timeout, give_up() is told which call of which rank it is.
class Watchdog {
 public:
  Watchdog(const MpiState& state, std::string_view call) noexcept;
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();

  const MpiState& state_;
  std::string message_;
  std::mutex mutex_;
  std::condition_variable returned_;
  bool has_returned_ = false;
  std::jthread thread_;  // last: it uses the others
};

/// The status of call(), watched.
template <class Call>
int watched(const MpiState& state, std::string_view name, const Call& call) {
  const Watchdog watchdog(state, name);
  return call();
}

}  // namespace ulmus::comm
