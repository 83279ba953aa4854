#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ulmus/base/thread_pool.h"
#include "ulmus/tensor/tensor_view.h"

namespace ulmus {

/// Which column of the kernel table an operation runs on.
///   kRef   plain loops, any float type: the oracle
///   kCpu   fast kernels, f32
///   kMeta  nothing is computed; operations are checked and booked only
enum class Backend : std::uint8_t { kRef, kCpu, kMeta };

/// "ref", "cpu", "meta".
std::string_view name_of(Backend backend);

/// What crossed between host and device since the last reset.
struct TransferCounters {
  std::int64_t host_reads = 0;  ///< calls of read_to_host: a steady step makes exactly one
  std::int64_t host_read_bytes = 0;
  std::int64_t staged_in = 0;  ///< calls of copy_to_device (batches, checkpoints)
  std::int64_t staged_in_bytes = 0;
  std::int64_t staged_out = 0;  ///< calls of copy_to_host (checkpoints)
  std::int64_t staged_out_bytes = 0;
};

/// Memory of one device, freed with this object.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Base address, aligned to 4,096 bytes; on a meta device it must not be dereferenced.
  virtual std::byte* address() = 0;
  virtual std::int64_t size_bytes() const = 0;
};

/// A place where tensors live and operations run.
class Device {
 public:
  virtual ~Device() = default;
  virtual Backend backend() const = 0;
  /// "cpu, 2 threads, cpu kernels" and the like, for logs.
  virtual std::string description() const = 0;
  /// Zero-filled memory, resident: every page is touched here, none inside a step.
  /// Error naming the bytes when there is not enough.
  virtual std::unique_ptr<DeviceMemory> allocate(std::int64_t size_bytes) = 0;
  /// Threads of a CPU device, which its kernels share. Error on other devices.
  virtual ThreadPool& pool() = 0;
  /// Threads for which operations price their scratch: those of pool(), or, on a meta device, of
  /// the device that it stands for.
  virtual int scratch_threads() const = 0;

  /// Host staging: host -> device and device -> host. Views must be contiguous; sizes must match.
  void copy_to_device(TensorView to, std::span<const std::byte> from);
  void copy_to_host(std::span<std::byte> to, ConstTensorView from);
  /// The host read of design law 4: waits for the device and copies `from` to `to`. Counted.
  void read_to_host(std::span<std::byte> to, ConstTensorView from);

  /// Typed forms of the three: element count and type are checked.
  template <class T>
  void copy_to_device(TensorView to, std::span<const T> from) {
    check_elements(to.shape(), to.dtype(), kDTypeOf<T>, from.size());
    copy_to_device(to, std::as_bytes(from));
  }
  template <class T>
  void copy_to_host(std::span<T> to, ConstTensorView from) {
    check_elements(from.shape(), from.dtype(), kDTypeOf<T>, to.size());
    copy_to_host(std::as_writable_bytes(to), from);
  }
  template <class T>
  void read_to_host(std::span<T> to, ConstTensorView from) {
    check_elements(from.shape(), from.dtype(), kDTypeOf<T>, to.size());
    read_to_host(std::as_writable_bytes(to), from);
  }

  const TransferCounters& transfers() const { return transfers_; }
  void reset_transfers() { transfers_ = {}; }

 private:
  virtual void do_copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void do_copy_out(std::span<std::byte> to, const std::byte* from) = 0;
  static void check_elements(const Shape& shape, DType dtype, DType host_dtype,
                             std::size_t host_elements);
  TransferCounters transfers_;
};

/// The machine's processor. `num_threads` >= 1. `backend` kRef (oracle) or kCpu (fast kernels).
std::unique_ptr<Device> make_cpu_device(int num_threads, Backend backend);

/// A device without memory: allocations only count, operations stop after booking, copies are
/// counted and move nothing (read_to_host yields zeros). `num_threads` is that of the device it
/// stands for, since scratch sizes depend on it.
std::unique_ptr<Device> make_meta_device(int num_threads);

/// Threads that the process may use (its CPU affinity mask).
int available_threads();

/// Bytes of memory that the system could hand out now without swapping (MemAvailable), or the
/// room left in the container's control group (the root of the cgroup v2 tree that the process
/// sees) when that is less.
std::int64_t available_memory_bytes();

}  // namespace ulmus
