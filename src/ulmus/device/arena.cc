#include "ulmus/device/arena.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ulmus {

namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::string_view name_of(MemoryClass memory_class) {
  constexpr std::array<std::string_view, kNumMemoryClasses> kNames = {
      "parameters", "gradients", "optimizer", "activations", "exchange", "workspace"};
  return kNames[static_cast<std::size_t>(memory_class)];
}

Arena::Arena(Device& device, MemoryClass memory_class, std::int64_t capacity_bytes)
    : memory_class_(memory_class),
      capacity_bytes_(capacity_bytes),
      memory_(device.allocate(capacity_bytes)) {}

TensorView Arena::allocate(std::string name, DType dtype, const Shape& shape) {
  const std::int64_t bytes = aligned(shape.numel() * size_of(dtype));
  ULMUS_CHECK(used_bytes_ + bytes <= capacity_bytes_, "arena ", name_of(memory_class_), ": ", name,
              " needs ", bytes, " bytes, ", capacity_bytes_ - used_bytes_, " of ", capacity_bytes_,
              " are left");
  const TensorView view(memory_->address() + used_bytes_, dtype, shape);
  used_bytes_ += bytes;
  allocations_.push_back({std::move(name), bytes});
  return view;
}

std::int64_t Arena::padded_elements(std::int64_t numel, DType dtype) {
  return aligned(numel * size_of(dtype)) / size_of(dtype);
}

TensorView Arena::span(TensorView first, TensorView last) const {
  ULMUS_CHECK(first.dtype() == last.dtype(), first.dtype(), " and ", last.dtype());
  const auto* begin = static_cast<std::byte*>(first.raw_data());
  const auto* end = static_cast<std::byte*>(last.raw_data()) + last.size_bytes();
  ULMUS_CHECK(memory_->address() <= begin && begin < end && end <= memory_->address() + used_bytes_,
              "arena ", name_of(memory_class_), ": tensors of another arena, or in another order");
  return {first.raw_data(), first.dtype(), {(end - begin) / size_of(first.dtype())}};
}

Workspace::Workspace(Device& device, std::int64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes), memory_(device.allocate(capacity_bytes)) {}

TensorView ScratchScope::take(DType dtype, const Shape& shape) {
  const std::int64_t bytes = aligned(shape.numel() * size_of(dtype));
  ULMUS_CHECK(workspace_.used_bytes_ + bytes <= workspace_.capacity_bytes_, "workspace: ", bytes,
              " bytes asked for, ", workspace_.capacity_bytes_ - workspace_.used_bytes_, " of ",
              workspace_.capacity_bytes_, " are left");
  const TensorView view(workspace_.memory_->address() + workspace_.used_bytes_, dtype, shape);
  workspace_.used_bytes_ += bytes;
  workspace_.peak_bytes_ = std::max(workspace_.peak_bytes_, workspace_.used_bytes_);
  return view;
}

std::int64_t MemoryTable::total_bytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), staging_bytes);
}

std::array<MemoryTable::Line, kNumMemoryClasses + 1> MemoryTable::lines() const {
  std::array<Line, kNumMemoryClasses + 1> lines{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    lines[i] = {name_of(static_cast<MemoryClass>(i)), bytes[i]};
  lines.back() = {"staging", staging_bytes};
  return lines;
}

}  // namespace ulmus
