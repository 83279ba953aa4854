#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ulmus {

/// Something that took its time on this rank.
struct TraceEvent {
  using Clock = std::chrono::steady_clock;
  /// Events of a track other than kTransfers lie one after the other or one within the other.
  enum class Track : std::uint8_t {
    kRun,         ///< steps, and what the loop does between them
    kOperations,  ///< kernels, as the meter books them
    kWaits,       ///< the host stands still for another rank
    kTransfers,   ///< between ranks, from start to end: they overlap with all else
  };

  std::string_view name;
  std::string_view group;  ///< of ranks; "" where none takes part
  Track track = Track::kRun;
  std::int64_t number = 0;  ///< of the step, or of the operation in its group
  Clock::time_point begin;
  Clock::time_point end;
};

/// Events in the order in which they ended, in memory that is taken once. Not thread-safe: one
/// thread issues operations.
class Trace {
 public:
  explicit Trace(std::size_t capacity) : capacity_(capacity) { events_.reserve(capacity); }

  /// The event's texts outlive the trace. Without room it is only counted.
  void record(const TraceEvent& event) {
    if (events_.size() < capacity_) {
      events_.push_back(event);
    } else {
      ++num_dropped_;
    }
  }
  /// Forgets all events and keeps their memory.
  void clear() {
    events_.clear();
    num_dropped_ = 0;
  }
  std::span<const TraceEvent> events() const { return events_; }
  std::int64_t num_dropped() const { return num_dropped_; }

 private:
  std::size_t capacity_;
  std::vector<TraceEvent> events_;
  std::int64_t num_dropped_ = 0;
};

/// Records its own lifetime on the track of the run; nothing without a trace.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, std::string_view name, std::int64_t number)
      : trace_(trace), name_(name), number_(number), begin_(TraceEvent::Clock::now()) {}
  ~TraceSpan() {
    if (trace_ == nullptr) return;
    trace_->record({.name = name_,
                    .group = {},
                    .number = number_,
                    .begin = begin_,
                    .end = TraceEvent::Clock::now()});
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  std::string_view name_;
  std::int64_t number_;
  TraceEvent::Clock::time_point begin_;
};

}  // namespace ulmus
