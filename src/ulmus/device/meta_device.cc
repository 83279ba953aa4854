#include <cstring>

#include "ulmus/base/check.h"
#include "ulmus/device/device.h"

namespace ulmus {

namespace {

/// Addresses that are only ever added to: no page stands behind them.
class MetaMemory final : public DeviceMemory {
 public:
  explicit MetaMemory(std::int64_t size_bytes) : size_bytes_(size_bytes) {}
  std::byte* address() override {
    constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 40U;
    return reinterpret_cast<std::byte*>(kNowhere);  // NOLINT: never dereferenced
  }
  std::int64_t size_bytes() const override { return size_bytes_; }

 private:
  std::int64_t size_bytes_;
};

class MetaDevice final : public Device {
 public:
  explicit MetaDevice(int num_threads) : num_threads_(num_threads) {}
  Backend backend() const override { return Backend::kMeta; }
  std::string description() const override {
    return concat("meta (nothing is computed), standing for ", num_threads_, " threads");
  }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t size_bytes) override {
    return std::make_unique<MetaMemory>(size_bytes);
  }
  ThreadPool& pool() override { fail("a meta device has no threads"); }
  int scratch_threads() const override { return num_threads_; }

 private:
  void do_copy_in(std::byte* /*to*/, std::span<const std::byte> /*from*/) override {}
  void do_copy_out(std::span<std::byte> to, const std::byte* /*from*/) override {
    std::memset(to.data(), 0, to.size());
  }
  int num_threads_;
};

}  // namespace

std::unique_ptr<Device> make_meta_device(int num_threads) {
  return std::make_unique<MetaDevice>(num_threads);
}

}  // namespace ulmus
