#include "ulmus/parallel/slot_memory.h"

#include <algorithm>

#include "ulmus/device/arena.h"

namespace ulmus::parallel {

SlotMemory::SlotMemory(const Options& options, const std::vector<std::int64_t>& unit_bytes,
                       nn::ParameterSet::Gradients gradients_mode, Arena& values, Arena& gradients)
    : options_(options),
      weights_(allocate_slots(options.weight_slots, unit_bytes, "weights.slot.", values)) {
  if (gradients_mode == nn::ParameterSet::Gradients::kNone) return;
  gradients_ = allocate_slots(options.gradient_slots, unit_bytes, "gradients.slot.", gradients);
}

std::size_t SlotMemory::slot(int unit, int slots) const {
  const int shared = unit % slots;
  if (!options_.first_alone) return static_cast<std::size_t>(shared);
  return unit == 0 ? static_cast<std::size_t>(slots) : static_cast<std::size_t>(shared);
}

/// Each as large as the largest unit that uses it.
std::vector<TensorView> SlotMemory::allocate_slots(int slots,
                                                   const std::vector<std::int64_t>& unit_bytes,
                                                   const std::string& name, Arena& arena) const {
  const std::size_t count = static_cast<std::size_t>(slots) + (options_.first_alone ? 1 : 0);
  std::vector<std::int64_t> bytes(count, 0);
  for (std::size_t unit = 0; unit < unit_bytes.size(); ++unit) {
    std::int64_t& most = bytes[slot(static_cast<int>(unit), slots)];
    most = std::max(most, unit_bytes[unit]);
  }
  std::vector<TensorView> views;
  views.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    views.push_back(arena.allocate(name + std::to_string(i), DType::kU8, {bytes[i]}));
  return views;
}

void SlotMemory::begin_unit(int unit) {
  unit_ = unit;
  used_bytes_ = 0;
}

nn::PlacedWeight SlotMemory::allocate(const std::string& name, DType dtype, const Shape& shape) {
  const std::int64_t begin = used_bytes_;
  const std::int64_t end = begin + shape.numel() * size_of(dtype);
  used_bytes_ = begin + Arena::padded_elements(shape.numel(), dtype) * size_of(dtype);
  const auto place = [&](const std::vector<TensorView>& slots, int count) {
    const TensorView memory = slots[slot(unit_, count)];
    ULMUS_CHECK(end <= memory.numel(), name, " ends at byte ", end, " of a slot of ",
                memory.numel());
    return memory.rows(begin, end).reinterpret(dtype, shape);
  };
  return {place(weights_, options_.weight_slots),
          gradients_.empty() ? TensorView() : place(gradients_, options_.gradient_slots)};
}

}  // namespace ulmus::parallel
