#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "ulmus/base/error.h"

namespace ulmus {

/// Element types of tensors on a device.
enum class DType : std::uint8_t { kF32, kF64, kI32, kI64, kU8 };

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
  }
  return 0;
}

/// "f32", "f64", "i32", "i64", "u8".
std::string_view name_of(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

constexpr bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }

/// The DType of a C++ element type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType kValue = DType::kI64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType kValue = DType::kU8;
};
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::kValue;

/// Calls body.template operator()<T>() with the C++ type of a float dtype; Error naming `what`
/// for any other dtype.
template <class Body>
void dispatch_float(DType dtype, std::string_view what, Body&& body) {
  switch (dtype) {
    case DType::kF32:
      return body.template operator()<float>();
    case DType::kF64:
      return body.template operator()<double>();
    default:
      fail(what, ": dtype ", name_of(dtype), " is not a float type (f32, f64)");
  }
}

}  // namespace ulmus
