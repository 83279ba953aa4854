#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ulmus/device/trace.h"

namespace ulmus {

/// What one kind of operation did since the last reset.
struct MeterEntry {
  std::string_view operation;  ///< a string literal of the front door
  std::int64_t calls = 0;
  double useful_flops = 0.0;  ///< multiply and add count two; recomputation is not useful
  double moved_bytes = 0.0;   ///< operands read and written once
  double seconds = 0.0;       ///< in kernels, where the device is synchronous (cpu); else 0
};

/// Books every operation that passes a front door, on every device. Real runs read useful FLOP/s
/// from it; dry runs read the work of a step. Not thread-safe: one thread issues operations.
class Meter {
 public:
  static constexpr std::size_t kMaxOperations = 96;

  /// `operation` must outlive the meter (a string literal).
  void book(std::string_view operation, double useful_flops, double moved_bytes);
  /// The time of one call, which an attached trace records too.
  void add_time(std::string_view operation, TraceEvent::Clock::time_point begin,
                TraceEvent::Clock::time_point end);
  /// Null: none. Outlives its attachment.
  void attach(Trace* trace) { trace_ = trace; }
  void reset();
  std::span<const MeterEntry> entries() const { return {entries_.data(), num_entries_}; }
  double useful_flops() const;

 private:
  MeterEntry& entry_of(std::string_view operation);
  std::array<MeterEntry, kMaxOperations> entries_{};
  std::size_t num_entries_ = 0;
  Trace* trace_ = nullptr;
};

}  // namespace ulmus
