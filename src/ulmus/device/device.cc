#include "ulmus/device/device.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace ulmus {

std::string_view name_of(Backend backend) {
  switch (backend) {
    case Backend::kRef:
      return "ref";
    case Backend::kCpu:
      return "cpu";
    case Backend::kMeta:
      return "meta";
  }
  return "?";
}

namespace {

std::int64_t bytes_of(std::span<const std::byte> bytes) {
  return static_cast<std::int64_t>(bytes.size());
}

}  // namespace

void Device::check_elements(const Shape& shape, DType dtype, DType host_dtype,
                            std::size_t host_elements) {
  ULMUS_CHECK(dtype == host_dtype && shape.numel() == static_cast<std::int64_t>(host_elements),
              "device tensor ", dtype, " ", shape, ", host ", host_dtype, " x ", host_elements);
}

void Device::copy_to_device(TensorView to, std::span<const std::byte> from) {
  ULMUS_CHECK(to.is_contiguous() && to.size_bytes() == bytes_of(from), to.shape(), " of ",
              to.dtype(), " from ", from.size(), " bytes");
  ++transfers_.staged_in;
  transfers_.staged_in_bytes += bytes_of(from);
  if (!from.empty()) do_copy_in(static_cast<std::byte*>(to.raw_data()), from);
}

void Device::copy_to_host(std::span<std::byte> to, ConstTensorView from) {
  ULMUS_CHECK(from.is_contiguous() && from.size_bytes() == bytes_of(to), from.shape(), " of ",
              from.dtype(), " to ", to.size(), " bytes");
  ++transfers_.staged_out;
  transfers_.staged_out_bytes += bytes_of(to);
  if (!to.empty()) do_copy_out(to, static_cast<const std::byte*>(from.raw_data()));
}

void Device::read_to_host(std::span<std::byte> to, ConstTensorView from) {
  ULMUS_CHECK(from.is_contiguous() && from.size_bytes() == bytes_of(to), from.shape(), " of ",
              from.dtype(), " to ", to.size(), " bytes");
  ++transfers_.host_reads;
  transfers_.host_read_bytes += bytes_of(to);
  if (!to.empty()) do_copy_out(to, static_cast<const std::byte*>(from.raw_data()));
}

namespace {

/// First number of a file of the kernel; nothing when there is no such file or it says "max".
std::int64_t number_in(const char* path, std::int64_t otherwise) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : otherwise;
}

/// Pages of files in the control group that the kernel would drop before it refuses memory.
std::int64_t file_cache_bytes() {
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::string name;
  for (std::int64_t bytes = 0; file >> name >> bytes;) {
    if (name == "inactive_file") return bytes;
  }
  return 0;
}

}  // namespace

std::int64_t available_memory_bytes() {
  constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
  std::int64_t available = kUnlimited;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    constexpr std::string_view kKey = "MemAvailable:";
    if (line.starts_with(kKey)) available = std::stoll(line.substr(kKey.size())) * 1024;
  }
  const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max", kUnlimited);
  if (limit != kUnlimited) {
    const std::int64_t used = number_in("/sys/fs/cgroup/memory.current", 0) - file_cache_bytes();
    available = std::min(available, std::max<std::int64_t>(limit - used, 0));
  }
  return available;
}

int available_threads() {
  constexpr std::size_t kMostSets = 64;  // 65,536 cores
  for (std::vector<cpu_set_t> sets(1); sets.size() <= kMostSets; sets.resize(2 * sets.size())) {
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) == 0) {
      return std::max(1, CPU_COUNT_S(bytes, sets.data()));
    }
  }
  return 1;
}

}  // namespace ulmus
