#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/operations.h"
#include "ulmus/comm/pieces.h"
#include "ulmus/comm/reduce.h"

namespace ulmus::comm {

ReduceScatter::ReduceScatter(Communicator& group, TensorView buffer, PieceBounds begin,
                             TensorView staging, Device& device)
    : Operation(group, OperationKind::kReduceScatter),
      device_(device),
      buffer_(static_cast<std::byte*>(buffer.raw_data())),
      staging_(static_cast<std::byte*>(staging.raw_data())),
      dtype_(buffer.dtype()),
      begin_(std::move(begin)),
      sends_(static_cast<std::size_t>(group.size())),
      sources_(static_cast<std::size_t>(group.size())) {
  check_device(device);
  check_pieces(begin_, buffer, group);
  ULMUS_CHECK(dtype_ == DType::kF32 || dtype_ == DType::kF64 || dtype_ == DType::kI64, "sums of ",
              dtype_, ": f32, f64 or i64");
  const ScatterStaging layout(begin_, dtype_);
  ULMUS_CHECK(staging.dtype() == DType::kU8 && staging.is_contiguous() &&
                  staging.numel() >= layout.total_bytes,
              "staging of ", staging.dtype(), ' ', staging.shape(), " for ", layout.total_bytes,
              " bytes");
  ULMUS_CHECK(reinterpret_cast<std::uintptr_t>(staging_) % sizeof(double) == 0,
              "staging is not aligned");
  slot_bytes_ = layout.slot_bytes;
  num_slots_ = layout.num_slots;
  const auto own = static_cast<std::size_t>(rank());
  chunks_ = {.total_bytes = (begin_[own + 1] - begin_[own]) * size_of(dtype_),
             .chunk_bytes = layout.chunk_bytes};
  receives_.resize(static_cast<std::size_t>(num_slots_ * size()));
  announce(static_cast<std::size_t>((num_slots_ + Transfer::kWindow) * (size() - 1)));
}

std::int64_t ReduceScatter::staging_bytes(const PieceBounds& begin, DType dtype) {
  return ScatterStaging(begin, dtype).total_bytes;
}

std::byte* ReduceScatter::own_piece() const {
  return buffer_ + begin_[static_cast<std::size_t>(rank())] * size_of(dtype_);
}

std::byte* ReduceScatter::slot(std::int64_t chunk, int member) const {
  const int other = member < rank() ? member : member - 1;  // this rank has no slot
  return staging_ + ((chunk % num_slots_) * (size() - 1) + other) * slot_bytes_;
}

Request& ReduceScatter::request(std::int64_t chunk, int member) {
  return receives_[static_cast<std::size_t>((chunk % num_slots_) * size() + member)];
}

void ReduceScatter::start() {
  launch([&] {
    posted_ = added_ = 0;
    post_receives();
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size();
      const auto idx = static_cast<std::size_t>(to);
      const auto num_bytes =
          static_cast<std::size_t>((begin_[idx + 1] - begin_[idx]) * size_of(dtype_));
      send(sends_[idx], to, {buffer_ + begin_[idx] * size_of(dtype_), num_bytes},
           chunks_.chunk_bytes);
    }
  });
}

bool ReduceScatter::advance() {
  const bool received = size() == 1 || advance_receives();
  return advance_transfers(sends_) && received;
}

bool ReduceScatter::advance_receives() {
  for (;;) {
    post_receives();
    if (added_ == chunks_.count()) return true;
    if (!has_arrived(added_)) return false;
    if (has_memory()) add_chunk(added_);
    ++added_;
  }
}

void ReduceScatter::post_receives() {
  while (posted_ < chunks_.count() && posted_ - added_ < num_slots_) {
    post_chunk(posted_++);
  }
}

void ReduceScatter::post_chunk(std::int64_t chunk) {
  const auto num_bytes = static_cast<std::size_t>(chunks_.end(chunk) - chunks_.begin(chunk));
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    const Channel from_channel = channel(from);
    Transport& transport = from_channel.transport;
    const RequestId id = transport.start_receive(from_channel.world_rank, from_channel.tag,
                                                 {slot(chunk, from), num_bytes});
    request(chunk, from) = Request(transport, id);
  }
}

bool ReduceScatter::has_arrived(std::int64_t chunk) {
  bool all_there = true;
  for (int member = 0; member < size(); ++member) {
    Request& message = request(chunk, member);
    if (!message.is_pending()) continue;
    if (message.test()) {
      count_steps(1);
    } else {
      all_there = false;
    }
  }
  return all_there;
}

void ReduceScatter::add_chunk(std::int64_t chunk) {
  std::byte* out = own_piece() + chunks_.begin(chunk);
  for (int member = 0; member < size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = member == rank() ? out : slot(chunk, member);
  }
  const std::int64_t num_bytes = chunks_.end(chunk) - chunks_.begin(chunk);
  reduce_on(device_, out, sources_, dtype_, ReduceOp::kSum, num_bytes / size_of(dtype_));
}

void ReduceScatter::list_awaited(std::vector<int>& members) const {
  add_awaited(members, sends_);
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    if (receives_[i].is_pending()) members.push_back(static_cast<int>(i) % size());
  }
}

void ReduceScatter::abandon() noexcept {
  abandon_transfers(sends_);
  for (Request& receive : receives_) {
    receive.abandon();
  }
}

}  // namespace ulmus::comm
