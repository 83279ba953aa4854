#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void FrontDoor::rank(std::string_view name, const Layout& view, int expected) const {
  require(view.rank() == expected, name, " is ", view.dtype(), " ", view.shape(), ", expected ",
          expected, " axes");
}

void FrontDoor::is_float(std::string_view name, const Layout& view) const {
  require(ulmus::is_float(view.dtype()), name, " is ", view.dtype(), " ", view.shape(),
          ", expected a float type (f32, f64)");
}

void FrontDoor::operand(std::string_view name, const Layout& view, DType dtype,
                        const Shape& shape) const {
  rows_operand(name, view, dtype, shape);
  require(view.numel() == 0 || view.is_contiguous(), name, " ", view.shape(),
          " has gaps between rows (row stride ", view.stride(0), "), expected none");
}

void FrontDoor::rows_operand(std::string_view name, const Layout& view, DType dtype,
                             const Shape& shape) const {
  require(view.dtype() == dtype && view.shape() == shape, name, " is ", view.dtype(), " ",
          view.shape(), ", expected ", dtype, " ", shape);
}

void FrontDoor::apart(std::string_view out_name, const ConstTensorView& out, std::string_view name,
                      const ConstTensorView& view) const {
  require(!has_addresses_ || !overlaps(out, view), out_name, " ", out.shape(),
          " shares memory with ", name, " ", view.shape());
}

void FrontDoor::same_or_apart(std::string_view out_name, const ConstTensorView& out,
                              std::string_view name, const ConstTensorView& view) const {
  require(!has_addresses_ || !overlaps(out, view) || is_same_window(out, view), out_name, " ",
          out.shape(), " overlaps ", name, " ", view.shape(), " without being the same memory");
}

void FrontDoor::booked(std::string_view name, std::int64_t booked, std::int64_t limit) const {
  require(0 <= booked && booked <= limit, name, " is ", booked, ", expected 0 to ", limit);
}

}  // namespace ulmus::ops
