#include "ulmus/cli/on_ranks.h"

#include <unistd.h>

#include <cmath>
#include <exception>
#include <memory>
#include <optional>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/cli/output.h"
#include "ulmus/comm/agreement.h"
#include "ulmus/comm/ending.h"
#include "ulmus/comm/launch.h"
#include "ulmus/comm/mpi_session.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/handshake.h"

namespace ulmus::cli {

namespace {

/// The configuration, or why there is none: the ranks talk about it before anyone ends.
class LoadedConfig {
 public:
  LoadedConfig(const std::string& path, const std::vector<std::string>& overrides) {
    try {
      config_ = train::load_config(path, overrides);
    } catch (const Error&) {
      refusal_ = std::current_exception();
    }
  }
  /// The longest wait for another rank: the configuration's, or a default without one.
  comm::World::Options options() const {
    return config_ ? timeout_of(*config_) : comm::World::Options{};
  }
  const train::Config& agreed(comm::World& world) const {
    comm::agree(world.all(), [&] {
      if (refusal_) std::rethrow_exception(refusal_);
    });
    ULMUS_CHECK(config_.has_value(), "without one, the refusal was thrown above");
    return *config_;
  }

 private:
  std::optional<train::Config> config_;
  std::exception_ptr refusal_;
};

int run_body(const LoadedConfig& loaded, const RankBody& body, comm::World& world) {
  const train::Config& config = loaded.agreed(world);
  train::shake_hands(world, [&] { return train::own_hand(config); });
  return body(config, world);
}

void print_error(std::string_view error) { print_note(concat("ulmus: error: ", error)); }

[[noreturn]] void give_up(std::string_view why) {
  print_error(why);
  ::_exit(static_cast<int>(ExitCode::kFailed));
}

int run_launched(const LoadedConfig& loaded, const RankBody& body) {
  comm::MpiSession session({.timeout = loaded.options().timeout, .give_up = give_up});
  comm::World world(session.make_transport(), loaded.options());
  try {
    return run_body(loaded, body, world);
  } catch (...) {
    return comm::end_rank(session, world, comm::ending_of_current(), print_error);
  }
}

class SilentReporter final : public train::Reporter {
 public:
  void info(std::string_view /*line*/) override {}
  void warning(std::string_view /*line*/) override {}
  void progress(const train::Progress& /*progress*/) override {}
};

}  // namespace

int run_on_ranks(const std::string& config_path, const std::vector<std::string>& overrides,
                 const RankBody& body) {
  const LoadedConfig loaded(config_path, overrides);
  if (comm::is_launched()) return run_launched(loaded, body);
  comm::World world(std::move(comm::make_thread_transports(1).front()), loaded.options());
  return run_body(loaded, body, world);
}

std::unique_ptr<train::Reporter> make_reporter(const comm::World& world) {
  if (prints(world)) return train::make_terminal_reporter();
  return std::make_unique<SilentReporter>();
}

comm::World::Options timeout_of(const train::Config& config) {
  const double timeout_ms = std::ceil(config.run.timeout_s * 1000.0);
  return {.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_ms))};
}

bool prints(const comm::World& world) { return world.rank() == 0; }

void refuse_ranks() {
  const int ranks = comm::launched_ranks().value_or(1);
  if (ranks <= 1) return;
  fail_input(ranks,
             " ranks were started, but this command runs in one process: start it without mpirun "
             "or srun");
}

}  // namespace ulmus::cli
