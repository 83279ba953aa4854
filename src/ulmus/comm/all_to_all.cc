#include <algorithm>

#include "ulmus/base/check.h"
#include "ulmus/comm/operations.h"
#include "ulmus/comm/reduce.h"

namespace ulmus::comm {

namespace {

/// Blocks of rows of a matrix, as bytes.
template <class Byte>
struct Rows {
  Byte* base;
  std::int64_t row_bytes;
  std::span<const std::int64_t> begin;

  std::span<Byte> block(int member) const {
    const auto idx = static_cast<std::size_t>(member);
    return {base + begin[idx] * row_bytes,
            static_cast<std::size_t>((begin[idx + 1] - begin[idx]) * row_bytes)};
  }
};

std::int64_t row_bytes_of(const ConstTensorView& matrix) {
  std::int64_t elements = 1;
  for (int axis = 1; axis < matrix.rank(); ++axis) {
    elements *= matrix.dim(axis);
  }
  return elements * size_of(matrix.dtype());
}

void check_rows(const ConstTensorView& matrix, std::span<const std::int64_t> begin,
                const Communicator& group, const char* name) {
  ULMUS_CHECK(matrix.rank() >= 1 && matrix.is_contiguous(), name, ' ', matrix.shape(),
              " has rows, and no gaps between them");
  ULMUS_CHECK(static_cast<int>(begin.size()) == group.size() + 1, begin.size(), " bounds of ", name,
              " for ", group.size(), " ranks of group ", group.name());
  ULMUS_CHECK(std::is_sorted(begin.begin(), begin.end()) && begin.front() >= 0 &&
                  begin.back() <= matrix.dim(0),
              "blocks of ", name, ' ', matrix.shape(), " lie in rows [", begin.front(), ", ",
              begin.back(), ") and ascend");
}

}  // namespace

AllToAll::AllToAll(Communicator& group, Device& device)
    : Operation(group, OperationKind::kAllToAll), device_(device) {
  check_device(device);
  announce(2 * static_cast<std::size_t>(Transfer::kWindow * (size() - 1)));
}

void AllToAll::start(TensorView out, std::span<const std::int64_t> out_begin, ConstTensorView in,
                     std::span<const std::int64_t> in_begin) {
  check_rows(out, out_begin, group(), "out");
  check_rows(in, in_begin, group(), "in");
  ULMUS_CHECK(out.dtype() == in.dtype() && row_bytes_of(out) == row_bytes_of(in), "out ",
              out.dtype(), ' ', out.shape(), ", in ", in.dtype(), ' ', in.shape());
  ULMUS_CHECK(!overlaps(out, in), "out and in overlap");
  const Rows<std::byte> to{static_cast<std::byte*>(out.raw_data()), row_bytes_of(out), out_begin};
  const Rows<const std::byte> from{static_cast<const std::byte*>(in.raw_data()), row_bytes_of(in),
                                   in_begin};
  const std::span<std::byte> to_self = to.block(rank());
  const std::span<const std::byte> from_self = from.block(rank());
  ULMUS_CHECK(to_self.size() == from_self.size(), "rank ", rank(), " keeps ", from_self.size(),
              " bytes and expects ", to_self.size());
  launch([&] {
    exchange_.start([&](int target) { return from.block(target); },
                    [&](int source) { return to.block(source); });
  });
  if (has_memory()) {
    copy_on(device_, to_self.data(), from_self.data(), static_cast<std::int64_t>(to_self.size()));
  }
}

}  // namespace ulmus::comm
