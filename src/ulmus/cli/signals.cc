#include "ulmus/cli/signals.h"

#include <array>
#include <csignal>

#include "ulmus/base/check.h"

namespace ulmus::cli {
namespace {

/// A closed terminal is no reason to lose what was trained.
constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};
/// A reader that went away, a file over the limit: the write fails and says so.
constexpr std::array kIgnoredSignals = {SIGPIPE, SIGXFSZ};

// A signal handler takes no argument but the signal.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
constinit std::atomic<std::atomic<int>*> stop_signal{nullptr};
static_assert(std::atomic<std::atomic<int>*>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void ulmus_take_stop_signal(int signal) {
  if (std::atomic<int>* flag = stop_signal.load()) flag->store(signal);
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  const int status = ::sigaction(signal, &action, nullptr);
  ULMUS_CHECK(status == 0, "sigaction for signal ", signal);
}

}  // namespace

SignalScope::SignalScope(train::StopFlag& flag) {
  stop_signal.store(&flag.signal);
  for (const int signal : kStopSignals) {
    // SA_RESETHAND: whoever asks twice does not want to wait for the checkpoint.
    handle(signal, ulmus_take_stop_signal, SA_RESTART | static_cast<int>(SA_RESETHAND));
  }
  for (const int signal : kIgnoredSignals)
    handle(signal, SIG_IGN, 0);
}

SignalScope::~SignalScope() {
  for (const int signal : kStopSignals) {
    std::signal(signal, SIG_DFL);
  }
  for (const int signal : kIgnoredSignals)
    std::signal(signal, SIG_DFL);
  stop_signal.store(nullptr);
}

int exit_status_of_signal(int signal) { return 128 + signal; }

}  // namespace ulmus::cli
