#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/device/meter.h"
#include "ulmus/device/trace.h"

namespace ulmus::train {

/// The steps of run.trace on every rank, for <run>/trace.json in the Trace Event Format (chrome
/// about:tracing, Perfetto): a process for each rank, a track for what the loop, the kernels and
/// the waits do, and a span for every operation between ranks. Times are microseconds since the
/// first traced step, in which all ranks began to count with a barrier.
class StepTrace {
 public:
  /// Events of a rank; those of a step of many layers and micro-batches are some ten thousands.
  static constexpr std::size_t kCapacity = std::size_t{1} << 17U;

  /// Takes its memory when there are steps to trace. `meter` and `world` outlive this.
  StepTrace(std::vector<std::int64_t> steps, Meter& meter, comm::World& world);
  ~StepTrace();
  /// Host memory of one that traces these steps.
  static std::int64_t bytes(const std::vector<std::int64_t>& steps);
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Before anything of a step (from 1): records it or does not. Collective.
  void begin(std::int64_t step);
  /// Null while nothing is recorded.
  Trace* active();
  bool has_events() const { return !trace_.events().empty(); }
  /// Whether `step`, which has ended, was the last one wanted.
  bool is_complete(std::int64_t step) const;
  /// Writes what was recorded, on the first rank, forgets it and stops recording. Collective.
  /// Returns how many events of all ranks had no room. Error on every rank when the file cannot be
  /// written.
  std::int64_t write(const std::filesystem::path& path);

 private:
  void attach(Trace* trace);
  /// The events of this rank, separated by ",\n".
  std::string text() const;

  std::vector<std::int64_t> steps_;
  Meter& meter_;
  comm::World& world_;
  Trace trace_;
  bool is_on_ = false;
  bool has_origin_ = false;
  TraceEvent::Clock::time_point origin_;
};

}  // namespace ulmus::train
