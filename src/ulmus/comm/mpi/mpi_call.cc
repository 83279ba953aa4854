#include "ulmus/comm/mpi/mpi_call.h"

#include <unistd.h>

#include <array>

#include "ulmus/base/error.h"
#include "ulmus/comm/failure_watch.h"

namespace ulmus::comm {

namespace {

std::string own_name(const MpiState& state) {
  return state.rank < 0 ? "this rank" : concat("rank ", state.rank);
}

}  // namespace

std::string mpi_error_text(int code, std::string_view what) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  return concat(what, ": ", std::string_view(text.data(), static_cast<std::size_t>(length)));
}

void check_mpi(int code, std::string_view what, MpiState& state) {
  if (code == MPI_SUCCESS) return;
  state.has_failed = true;
  throw Error(mpi_error_text(code, what));
}

void log_mpi(int code, std::string_view what, MpiState& state) noexcept {
  if (code == MPI_SUCCESS) return;
  state.has_failed = true;
  try {
    const std::string line =
        concat("ulmus: warning: ", own_name(state), ": ", what, " returned error ", code, '\n');
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    return;  // out of memory
  }
}

Watchdog::Watchdog(const MpiState& state, std::string_view call) noexcept : state_(state) {
  try {
    message_ = concat(own_name(state), ": ", call, " did not return within ",
                      in_seconds(state.timeout), ": another rank does not come");
    thread_ = std::jthread([this] { watch(); });
  } catch (...) {
    return;  // no memory or thread is left: the call is made all the same
  }
}

Watchdog::~Watchdog() {
  const std::lock_guard lock(mutex_);
  has_returned_ = true;
  returned_.notify_one();
}

void Watchdog::watch() {
  {
    std::unique_lock lock(mutex_);
    if (returned_.wait_for(lock, state_.timeout, [&] { return has_returned_; })) return;
  }
  if (state_.give_up) state_.give_up(message_);
  throw CommError(message_);  // nobody catches it: the program is terminated
}

}  // namespace ulmus::comm
