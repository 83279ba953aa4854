#include "ulmus/device/meter.h"

#include "ulmus/base/check.h"

namespace ulmus {

void Meter::book(std::string_view operation, double useful_flops, double moved_bytes) {
  std::size_t idx = 0;
  while (idx < num_entries_ && entries_[idx].operation != operation) ++idx;
  if (idx == num_entries_) {
    ULMUS_CHECK(num_entries_ < kMaxOperations, "more than ", kMaxOperations, " operations");
    entries_[num_entries_++] = {.operation = operation};
  }
  MeterEntry& entry = entries_[idx];
  ++entry.calls;
  entry.useful_flops += useful_flops;
  entry.moved_bytes += moved_bytes;
}

void Meter::reset() { num_entries_ = 0; }

double Meter::useful_flops() const {
  double sum = 0.0;
  for (const MeterEntry& entry : entries()) sum += entry.useful_flops;
  return sum;
}

}  // namespace ulmus
