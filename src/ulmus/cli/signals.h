#pragma once

#include "ulmus/train/run.h"

namespace ulmus::cli {

/// While it lives, SIGINT, SIGTERM and SIGHUP set the flag, once each; a second signal of the same
/// kind ends the process. One at a time.
class SignalScope {
 public:
  explicit SignalScope(train::StopFlag& flag);
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

/// Exit status of a process that a signal stopped: 130 for SIGINT, 143 for SIGTERM, 129 for
/// SIGHUP.
int exit_status_of_signal(int signal);

}  // namespace ulmus::cli
