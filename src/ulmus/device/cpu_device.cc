#include <sys/mman.h>

#include <cstring>

#include "ulmus/base/check.h"
#include "ulmus/device/device.h"

namespace ulmus {

namespace {

constexpr std::int64_t kPageBytes = 4096;
/// What one thread copies before a second one is worth waking.
constexpr std::int64_t kCopyGrainBytes = std::int64_t{256} << 10U;

/// Anonymous pages: zero, given back to the system at once when freed.
class CpuMemory final : public DeviceMemory {
 public:
  CpuMemory(std::int64_t size_bytes, ThreadPool& pool) : size_bytes_(size_bytes) {
    if (size_bytes == 0) return;
    void* address = ::mmap(nullptr, static_cast<std::size_t>(size_bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) fail("not enough memory for an arena of ", size_bytes, " bytes");
    address_ = static_cast<std::byte*>(address);
    ::madvise(address, static_cast<std::size_t>(size_bytes), MADV_HUGEPAGE);
    // First touch by the threads that will use it; a step must not fault pages in.
    pool.for_ranges((size_bytes + kPageBytes - 1) / kPageBytes, 512,
                    [&](std::int64_t begin, std::int64_t end, int) {
                      for (std::int64_t page = begin; page < end; ++page) {
                        address_[page * kPageBytes] = std::byte{0};
                      }
                    });
  }
  ~CpuMemory() override {
    if (address_ != nullptr) ::munmap(address_, static_cast<std::size_t>(size_bytes_));
  }
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;
  std::byte* address() override { return address_; }
  std::int64_t size_bytes() const override { return size_bytes_; }

 private:
  std::byte* address_ = nullptr;
  std::int64_t size_bytes_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(int num_threads, Backend backend) : pool_(num_threads), backend_(backend) {
    ULMUS_CHECK(backend != Backend::kMeta, "a CPU device computes: backend ref or cpu");
  }
  Backend backend() const override { return backend_; }
  std::string description() const override {
    return concat("cpu, ", pool_.num_threads(), " threads, ", name_of(backend_), " kernels");
  }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t size_bytes) override {
    return std::make_unique<CpuMemory>(size_bytes, pool_);
  }
  ThreadPool& pool() override { return pool_; }
  int scratch_threads() const override { return pool_.num_threads(); }

 private:
  void do_copy_in(std::byte* to, std::span<const std::byte> from) override {
    copy(to, from.data(), from.size());
  }
  void do_copy_out(std::span<std::byte> to, const std::byte* from) override {
    copy(to.data(), from, to.size());
  }
  /// By all threads: checkpoints copy the whole state while a step waits.
  void copy(std::byte* to, const std::byte* from, std::size_t size_bytes) {
    pool_.for_ranges(static_cast<std::int64_t>(size_bytes), kCopyGrainBytes,
                     [&](std::int64_t begin, std::int64_t end, int) {
                       std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
                     });
  }

  ThreadPool pool_;
  Backend backend_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int num_threads, Backend backend) {
  return std::make_unique<CpuDevice>(num_threads, backend);
}

}  // namespace ulmus
