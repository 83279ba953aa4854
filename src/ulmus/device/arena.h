#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/device/device.h"

namespace ulmus {

/// The six classes of memory, one arena each.
enum class MemoryClass : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kExchange,
  kWorkspace,
};
inline constexpr int kNumMemoryClasses = 6;

/// "parameters", "gradients", ...
std::string_view name_of(MemoryClass memory_class);

/// One named tensor of an arena.
struct Allocation {
  std::string name;
  std::int64_t size_bytes;
};

/// Tensors of one class in one piece of memory, handed out one after the other and never given
/// back. All are taken before the first step (design, law 6).
class Arena {
 public:
  /// A capacity that never ends, for meta devices, which have no memory to run out of.
  static constexpr std::int64_t kUnbounded = std::int64_t{1} << 60U;

  Arena(Device& device, MemoryClass memory_class, std::int64_t capacity_bytes);

  /// A zero-filled tensor, aligned to 64 bytes. Error naming arena, tensor and bytes when the
  /// capacity is used up.
  TensorView allocate(std::string name, DType dtype, const Shape& shape);

  /// Elements that a tensor of `numel` takes, the gap to the next one included.
  static std::int64_t padded_elements(std::int64_t numel, DType dtype);
  /// The memory from the beginning of one tensor of this arena to the end of another, as [n] of
  /// their dtype: the alignment gaps between them are part of it.
  TensorView span(TensorView first, TensorView last) const;

  MemoryClass memory_class() const { return memory_class_; }
  std::int64_t used_bytes() const { return used_bytes_; }
  std::int64_t capacity_bytes() const { return capacity_bytes_; }
  const std::vector<Allocation>& allocations() const { return allocations_; }

 private:
  MemoryClass memory_class_;
  std::int64_t capacity_bytes_;
  std::int64_t used_bytes_ = 0;
  std::vector<Allocation> allocations_;
  std::unique_ptr<DeviceMemory> memory_;
};

/// A stack of short-lived scratch, taken and given back inside a step by scopes. Its size is the
/// high-water mark of the same step on a meta device.
class Workspace {
 public:
  Workspace(Device& device, std::int64_t capacity_bytes);

  std::int64_t peak_bytes() const { return peak_bytes_; }
  std::int64_t capacity_bytes() const { return capacity_bytes_; }
  std::int64_t used_bytes() const { return used_bytes_; }

 private:
  friend class ScratchScope;
  std::int64_t capacity_bytes_;
  std::int64_t used_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
};

/// Gives back at its end all that was taken through it. Scopes nest like the calls they live in.
class ScratchScope {
 public:
  explicit ScratchScope(Workspace& workspace)
      : workspace_(workspace), begin_bytes_(workspace.used_bytes_) {}
  ~ScratchScope() { workspace_.used_bytes_ = begin_bytes_; }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  /// An uninitialised tensor, aligned to 64 bytes. Error when the workspace is too small.
  TensorView take(DType dtype, const Shape& shape);

 private:
  Workspace& workspace_;
  std::int64_t begin_bytes_;
};

/// Bytes by class, in the order of MemoryClass, and of the host memory that stands beside the
/// arenas.
struct MemoryTable {
  std::array<std::int64_t, kNumMemoryClasses> bytes{};
  /// Host memory through which checkpoints leave the device and in which traces wait.
  std::int64_t staging_bytes = 0;
  std::int64_t& operator[](MemoryClass memory_class) {
    return bytes[static_cast<std::size_t>(memory_class)];
  }
  std::int64_t operator[](MemoryClass memory_class) const {
    return bytes[static_cast<std::size_t>(memory_class)];
  }
  std::int64_t total_bytes() const;
  /// Every line of the table, as people and scripts read it: the classes, then "staging".
  struct Line {
    std::string_view name;
    std::int64_t bytes;
  };
  std::array<Line, kNumMemoryClasses + 1> lines() const;
};

}  // namespace ulmus
