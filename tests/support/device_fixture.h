#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ulmus/base/philox.h"
#include "ulmus/device/arena.h"
#include "ulmus/device/device.h"
#include "ulmus/device/exec_context.h"

namespace ulmus::test {

/// A CPU device with all that an operation runs with. Tensors live as long as the fixture.
class DeviceFixture {
 public:
  explicit DeviceFixture(Backend backend = Backend::kRef, int num_threads = 1,
                         std::int64_t capacity_bytes = std::int64_t{4} << 20U)
      : device(make_cpu_device(num_threads, backend)),
        workspace(*device, capacity_bytes),
        arena(*device, MemoryClass::kActivations, capacity_bytes),
        ctx{*device, workspace, meter} {}

  template <class T>
  TensorView tensor(const Shape& shape, const std::vector<T>& values) {
    const TensorView view = arena.allocate("test", kDTypeOf<T>, shape);
    device->copy_to_device(view, std::span<const T>(values));
    return view;
  }
  TensorView i32(const Shape& shape, const std::vector<std::int32_t>& values) {
    return tensor(shape, values);
  }
  TensorView f64(const Shape& shape, const std::vector<double>& values) {
    return tensor(shape, values);
  }
  /// Values rounded to a float dtype.
  TensorView floats(DType dtype, const Shape& shape, const std::vector<double>& values) {
    const TensorView view = arena.allocate("test", dtype, shape);
    write(view, values);
    return view;
  }
  TensorView zeros(DType dtype, const Shape& shape) { return arena.allocate("test", dtype, shape); }
  /// A value that no operation leaves behind by chance: shows whether an output is overwritten.
  TensorView stale(DType dtype, const Shape& shape) {
    return floats(dtype, shape, std::vector<double>(count(shape), kStale));
  }
  static constexpr double kStale = -777.25;
  /// scale * standard normal variates of a named stream.
  TensorView normal(DType dtype, const Shape& shape, std::string_view stream, double scale = 1.0) {
    return floats(dtype, shape, normals(shape, stream, scale));
  }
  static std::vector<double> normals(const Shape& shape, std::string_view stream,
                                     double scale = 1.0) {
    const PhiloxKey key = philox_key(1, RandomPurpose::kTest, stream);
    std::vector<double> values(count(shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = scale * philox_truncated_normal(key, i, 4.0);
    }
    return values;
  }
  /// Uniform integers in [0, range) of a named stream.
  static std::vector<std::int32_t> integers(std::int64_t n, std::int32_t range,
                                            std::string_view stream) {
    const PhiloxKey key = philox_key(2, RandomPurpose::kTest, stream);
    std::vector<std::int32_t> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t bits = philox(key, {static_cast<std::uint32_t>(i), 0, 0, 0})[0];
      values[i] = static_cast<std::int32_t>(bits % static_cast<std::uint32_t>(range));
    }
    return values;
  }

  template <class T>
  std::vector<T> read(ConstTensorView view) {
    std::vector<T> values(static_cast<std::size_t>(view.numel()));
    device->copy_to_host(std::span<T>(values), view);
    return values;
  }
  /// Elements of a float tensor.
  std::vector<double> values(ConstTensorView view) {
    if (view.dtype() == DType::kF64) return read<double>(view);
    const std::vector<float> narrow = read<float>(view);
    return {narrow.begin(), narrow.end()};
  }
  void write(TensorView view, const std::vector<double>& values) {
    if (view.dtype() == DType::kF64) {
      device->copy_to_device(view, std::span<const double>(values));
      return;
    }
    std::vector<float> narrow(values.size());
    std::transform(values.begin(), values.end(), narrow.begin(),
                   [](double value) { return static_cast<float>(value); });
    device->copy_to_device(view, std::span<const float>(narrow));
  }

  std::unique_ptr<Device> device;
  Workspace workspace;
  Meter meter;
  Arena arena;
  ExecContext ctx;

 private:
  static std::size_t count(const Shape& shape) { return static_cast<std::size_t>(shape.numel()); }
};

}  // namespace ulmus::test
