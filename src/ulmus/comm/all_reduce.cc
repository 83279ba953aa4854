#include <algorithm>
#include <cstring>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/operations.h"
#include "ulmus/comm/reduce.h"

namespace ulmus::comm {

namespace {

/// Pieces are cut at these, so that no element of any type is cut in two.
constexpr std::int64_t kUnitBytes = 8;
constexpr std::int64_t kPieceAlignment = 64;

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// All parts one after the other, each from a whole unit on; then one piece of each other rank.
struct Staging {
  Staging(std::span<const AllReduce::Part> parts, int group_size) {
    std::int64_t packed_bytes = 0;
    for (const AllReduce::Part& part : parts) {
      packed_bytes += round_up(part.values.size_bytes(), kUnitBytes);
    }
    num_units = packed_bytes / kUnitBytes;
    slots_begin = round_up(packed_bytes, kPieceAlignment);
    const std::int64_t largest_piece = (num_units + group_size - 1) / group_size * kUnitBytes;
    slot_bytes = round_up(largest_piece, kPieceAlignment);
    total_bytes = group_size == 1 ? 0 : slots_begin + (group_size - 1) * slot_bytes;
  }
  std::int64_t num_units;
  std::int64_t slots_begin;
  std::int64_t slot_bytes;
  std::int64_t total_bytes;
};

}  // namespace

AllReduce::AllReduce(Communicator& group, std::vector<Part> parts, TensorView staging,
                     Device& device)
    : Operation(group, OperationKind::kAllReduce),
      device_(device),
      parts_(std::move(parts)),
      packed_(static_cast<std::byte*>(staging.raw_data())),
      gather_posted_(static_cast<std::size_t>(group.size())),
      sources_(static_cast<std::size_t>(group.size())) {
  check_device(device);
  const Staging layout(parts_, group.size());
  ULMUS_CHECK(staging.dtype() == DType::kU8 && staging.is_contiguous() &&
                  staging.numel() >= layout.total_bytes,
              "staging of ", staging.dtype(), ' ', staging.shape(), " for ", layout.total_bytes,
              " bytes");
  ULMUS_CHECK(reinterpret_cast<std::uintptr_t>(packed_) % kUnitBytes == 0,
              "staging is not aligned");
  slots_ = group.size() == 1 ? nullptr : packed_ + layout.slots_begin;
  slot_bytes_ = layout.slot_bytes;
  num_units_ = layout.num_units;
  std::int64_t begin = 0;
  for (const Part& part : parts_) {
    const DType dtype = part.values.dtype();
    ULMUS_CHECK(dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64,
                "all_reduce of ", dtype, ": f32, f64 or i64");
    ULMUS_CHECK(part.values.is_contiguous(), "all_reduce of ", part.values.shape(), " with gaps");
    part_begin_.push_back(begin);
    begin += round_up(part.values.size_bytes(), kUnitBytes);
  }
  announce(4 * static_cast<std::size_t>(size() - 1) * requests_of(layout.slot_bytes));
}

std::int64_t AllReduce::staging_bytes(std::span<const Part> parts, int group_size) {
  ULMUS_CHECK(group_size >= 1, "a group of ", group_size);
  return Staging(parts, group_size).total_bytes;
}

std::span<std::byte> AllReduce::piece(int member) const {
  const std::int64_t begin = num_units_ * member / size() * kUnitBytes;
  const std::int64_t end = num_units_ * (member + 1) / size() * kUnitBytes;
  return {packed_ + begin, static_cast<std::size_t>(end - begin)};
}

std::span<std::byte> AllReduce::slot(int member) const {
  const int other = member < rank() ? member : member - 1;  // this rank has no slot
  return {slots_ + other * slot_bytes_, piece(rank()).size()};
}

void AllReduce::start() {
  launch([&] {
    is_reduced_ = false;
    std::fill(gather_posted_.begin(), gather_posted_.end(), false);
    if (size() > 1 && has_memory()) pack();
    scatter_.start([&](int to) { return piece(to); }, [&](int from) { return slot(from); });
  });
}

void AllReduce::pack() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto num_bytes = static_cast<std::size_t>(parts_[i].values.size_bytes());
    if (num_bytes > 0)
      std::memcpy(packed_ + part_begin_[i], parts_[i].values.raw_data(), num_bytes);
  }
}

void AllReduce::unpack() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto num_bytes = static_cast<std::size_t>(parts_[i].values.size_bytes());
    if (num_bytes > 0)
      std::memcpy(parts_[i].values.raw_data(), packed_ + part_begin_[i], num_bytes);
  }
}

bool AllReduce::advance() {
  if (size() == 1) return true;
  const bool scattered = scatter_.advance_sends();
  if (!is_reduced_) {
    if (!scatter_.advance_receives()) return false;
    if (has_memory()) reduce_piece();
    is_reduced_ = true;
  }
  for (int step = 1; step < size(); ++step) {
    const int member = (rank() + step) % size();
    const auto idx = static_cast<std::size_t>(member);
    // All messages of the first half are posted by then, so the second cannot be mistaken for it;
    // and the piece that comes back lands where the one sent came from.
    if (gather_posted_[idx] || !scatter_.is_sent(member)) continue;
    gather_.start_with(member, piece(rank()), piece(member));
    gather_posted_[idx] = true;
  }
  const bool all_done = gather_.advance() && scattered;
  if (all_done && has_memory()) unpack();
  return all_done;
}

void AllReduce::reduce_piece() {
  const std::int64_t piece_begin = piece(rank()).data() - packed_;
  const std::int64_t piece_end = piece_begin + static_cast<std::int64_t>(piece(rank()).size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const std::int64_t begin = std::max(piece_begin, part_begin_[i]);
    const std::int64_t end = std::min(piece_end, part_begin_[i] + part.values.size_bytes());
    if (begin >= end) continue;
    for (int member = 0; member < size(); ++member) {
      sources_[static_cast<std::size_t>(member)] =
          member == rank() ? packed_ + begin : slot(member).data() + (begin - piece_begin);
    }
    reduce_on(device_, packed_ + begin, sources_, part.values.dtype(), part.op,
              (end - begin) / size_of(part.values.dtype()));
  }
}

void AllReduce::list_awaited(std::vector<int>& members) const {
  scatter_.add_awaited(members);
  gather_.add_awaited(members);
}

void AllReduce::abandon() noexcept {
  scatter_.abandon();
  gather_.abandon();
}

}  // namespace ulmus::comm
