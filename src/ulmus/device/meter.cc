#include "ulmus/device/meter.h"

#include "ulmus/base/check.h"

namespace ulmus {

MeterEntry& Meter::entry_of(std::string_view operation) {
  std::size_t idx = 0;
  while (idx < num_entries_ && entries_[idx].operation != operation)
    ++idx;
  if (idx == num_entries_) {
    ULMUS_CHECK(num_entries_ < kMaxOperations, "more than ", kMaxOperations, " operations");
    entries_[num_entries_++] = {.operation = operation};
  }
  return entries_[idx];
}

void Meter::book(std::string_view operation, double useful_flops, double moved_bytes) {
  MeterEntry& entry = entry_of(operation);
  ++entry.calls;
  entry.useful_flops += useful_flops;
  entry.moved_bytes += moved_bytes;
}

void Meter::add_time(std::string_view operation, TraceEvent::Clock::time_point begin,
                     TraceEvent::Clock::time_point end) {
  entry_of(operation).seconds += std::chrono::duration<double>(end - begin).count();
  if (trace_ == nullptr) return;
  trace_->record({.name = operation,
                  .group = {},
                  .track = TraceEvent::Track::kOperations,
                  .begin = begin,
                  .end = end});
}

void Meter::reset() { num_entries_ = 0; }

double Meter::useful_flops() const {
  double sum = 0.0;
  for (const MeterEntry& entry : entries())
    sum += entry.useful_flops;
  return sum;
}

}  // namespace ulmus
