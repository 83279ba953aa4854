#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ulmus/device/arena.h"
#include "ulmus/device/exec_context.h"

namespace ulmus::test {

using Bytes = std::vector<std::byte>;

struct Setup {
  const char* name;
  Backend backend;
  int num_threads;
  DType dtype;
};
inline constexpr Setup kSetups[] = {{"ref f64", Backend::kRef, 1, DType::kF64},
                                    {"ref f32", Backend::kRef, 1, DType::kF32},
                                    {"cpu, 1 thread", Backend::kCpu, 1, DType::kF32},
                                    {"cpu, 2 threads", Backend::kCpu, 2, DType::kF32},
                                    {"meta", Backend::kMeta, 2, DType::kF32}};

/// What a tensor without elements is a window on.
enum class Window { kInsideOthers, kNowhere };

inline std::unique_ptr<Device> make_device(const Setup& setup) {
  if (setup.backend == Backend::kMeta) return make_meta_device(setup.num_threads);
  return make_cpu_device(setup.num_threads, setup.backend);
}

/// Tensors of one call and what must become of them.
class Operands {
 public:
  Operands(const Setup& setup, Window window)
      : dtype(setup.dtype), window_(window), device_(make_device(setup)) {}

  /// A tensor without elements; nothing around it may change.
  TensorView none(DType type, std::initializer_list<std::int64_t> dims) {
    if (window_ == Window::kNowhere) return {nullptr, type, Shape(dims)};
    std::vector<std::int64_t> around(dims);
    const auto axis = std::find(around.begin(), around.end(), 0) - around.begin();
    around.at(static_cast<std::size_t>(axis)) = 3;
    return kept(type, Shape(around)).narrow(static_cast<int>(axis), 1, 1);
  }
  TensorView none(std::initializer_list<std::int64_t> dims) { return none(dtype, dims); }
  /// Holds values that adding 0 or copying through another type could change.
  TensorView kept(DType type, const Shape& shape) {
    const TensorView view = arena_.allocate("kept", type, shape);
    write(view);
    expected_.push_back({view, read(view)});
    return view;
  }
  TensorView kept(const Shape& shape) { return kept(dtype, shape); }
  /// Holds the same values; the operation must write zeros.
  TensorView zeroed(DType type, const Shape& shape) {
    const TensorView view = arena_.allocate("zeroed", type, shape);
    write(view);
    expected_.push_back({view, Bytes(static_cast<std::size_t>(view.size_bytes()))});
    return view;
  }
  TensorView zeroed(const Shape& shape) { return zeroed(dtype, shape); }
  /// Zeros to read, as counts and offsets are when there are no tokens; -1 likewise.
  TensorView zeros(DType type, const Shape& shape) { return arena_.allocate("zeros", type, shape); }
  TensorView no_routes(const Shape& shape) {
    const TensorView view = zeros(DType::kI32, shape);
    const std::vector<std::int32_t> values(static_cast<std::size_t>(shape.numel()), -1);
    device_->copy_to_device(view, std::span<const std::int32_t>(values));
    return view;
  }

  void expect_met() {
    EXPECT_EQ(meter_.useful_flops(), 0.0);
    EXPECT_GE(meter_.entries().size(), 1U);
    if (ctx.is_meta()) return;
    for (const auto& [view, bytes] : expected_) {
      EXPECT_TRUE(read(view) == bytes) << "operand " << view.dtype() << " " << view.shape();
    }
  }
  std::span<const MeterEntry> booked() const { return meter_.entries(); }

  const DType dtype;

 private:
  template <class T>
  void write_cycle(const TensorView& view, std::vector<T> cycle) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < view.numel(); ++i)
      values.push_back(cycle[static_cast<std::size_t>(i) % cycle.size()]);
    device_->copy_to_device(view, std::span<const T>(values));
  }
  template <class T>
  void write_floats(const TensorView& view) {
    using Limits = std::numeric_limits<T>;
    write_cycle<T>(
        view, {T{-0.0}, Limits::quiet_NaN(), Limits::denorm_min(), T{-777.25}, Limits::infinity()});
  }
  void write(const TensorView& view) {
    switch (view.dtype()) {
      case DType::kF32:
        return write_floats<float>(view);
      case DType::kF64:
        return write_floats<double>(view);
      case DType::kI32:
        return write_cycle<std::int32_t>(view, {-7, 5, 9});
      case DType::kI64:
        return write_cycle<std::int64_t>(view, {-7, 5, 9});
      case DType::kU8:
        return write_cycle<std::uint8_t>(view, {1, 7});
    }
  }
  Bytes read(const TensorView& view) {
    Bytes bytes(static_cast<std::size_t>(view.size_bytes()));
    device_->copy_to_host(std::span(bytes), view);
    return bytes;
  }

  Window window_;
  std::unique_ptr<Device> device_;
  Workspace workspace_{*device_, std::int64_t{1} << 20U};
  Arena arena_{*device_, MemoryClass::kActivations, std::int64_t{1} << 16U};
  Meter meter_;
  std::vector<std::pair<TensorView, Bytes>> expected_;

 public:
  const ExecContext ctx{*device_, workspace_, meter_};
};

}  // namespace ulmus::test
