#pragma once

#include <string_view>

#include "ulmus/base/error.h"
#include "ulmus/device/exec_context.h"
#include "ulmus/ops/kernels.h"

namespace ulmus::ops {

/// What a call is booked with.
struct Work {
  double useful_flops = 0.0;
  double moved_bytes = 0.0;
};

/// The checks that all front doors share. Every message starts with the operation and the operand
/// and shows both what came and what is needed. Nothing is allocated while checks hold.
/// Whether operands share memory is not asked on a meta device, whose addresses mean nothing.
class FrontDoor {
 public:
  using Layout = detail::ViewLayout;

  FrontDoor(std::string_view operation, const ExecContext& ctx)
      : operation_(operation), has_addresses_(!ctx.is_meta()) {}

  /// Any other demand; the message parts are joined only when it fails.
  template <class... Parts>
  void require(bool holds, const Parts&... parts) const {
    if (!holds) [[unlikely]] {
      fail(operation_, ": ", parts...);
    }
  }
  void rank(std::string_view name, const Layout& view, int expected) const;
  void is_float(std::string_view name, const Layout& view) const;
  /// Element type, shape, no gaps.
  void operand(std::string_view name, const Layout& view, DType dtype, const Shape& shape) const;
  /// Element type and shape; rows may have gaps.
  void rows_operand(std::string_view name, const Layout& view, DType dtype,
                    const Shape& shape) const;
  /// Two operands share no element.
  void apart(std::string_view out_name, const ConstTensorView& out, std::string_view name,
             const ConstTensorView& view) const;
  /// Two operands are the same memory, or share no element.
  void same_or_apart(std::string_view out_name, const ConstTensorView& out, std::string_view name,
                     const ConstTensorView& view) const;
  /// 0 <= booked <= limit
  void booked(std::string_view name, std::int64_t booked, std::int64_t limit) const;

 private:
  std::string_view operation_;
  bool has_addresses_;
};

/// Bytes of all operands together; a view that was not given has none.
template <class... Views>
double bytes_of(const Views&... views) {
  return (static_cast<double>(views.size_bytes()) + ... + 0.0);
}

/// Bytes of the first `rows` rows of a [R, ...] operand.
inline double bytes_of_rows(const detail::ViewLayout& view, std::int64_t rows) {
  const std::int64_t all = view.rank() == 0 ? 0 : view.dim(0);
  if (all == 0) return 0.0;
  const std::int64_t row_bytes = view.size_bytes() / all;
  return static_cast<double>(row_bytes) * static_cast<double>(rows);
}

/// `bytes` rounded up to a cache line: parts of a scratch, one for each thread.
constexpr std::int64_t in_cache_lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Books the call under the slot's name and runs it.
template <class Args>
void book_and_run(const KernelSlot<Args>& slot, const Args& args, const Work& work,
                  std::int64_t scratch_bytes, const ExecContext& ctx) {
  ctx.meter.book(slot.name, work.useful_flops, work.moved_bytes);
  run_kernel(slot, args, scratch_bytes, ctx);
}

}  // namespace ulmus::ops
