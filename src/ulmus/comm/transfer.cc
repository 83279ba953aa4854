#include "ulmus/comm/transfer.h"

#include "ulmus/base/check.h"

namespace ulmus::comm {

void Transfer::send(const Channel& channel, std::span<const std::byte> bytes,
                    std::int64_t chunk_bytes) {
  from_ = bytes.data();
  sends_ = true;
  start(channel, static_cast<std::int64_t>(bytes.size()), chunk_bytes);
}

void Transfer::receive(const Channel& channel, std::span<std::byte> bytes,
                       std::int64_t chunk_bytes) {
  to_ = bytes.data();
  sends_ = false;
  start(channel, static_cast<std::int64_t>(bytes.size()), chunk_bytes);
}

void Transfer::start(const Channel& channel, std::int64_t total_bytes, std::int64_t chunk_bytes) {
  ULMUS_DCHECK(is_done(), "a transfer is under way");
  transport_ = &channel.transport;
  world_rank_ = channel.world_rank;
  tag_ = channel.tag;
  chunks_ = {.total_bytes = total_bytes, .chunk_bytes = chunk_bytes};
  posted_ = 0;
  ended_ = 0;
  while (posted_ < std::min(kWindow, chunks_.count())) {
    post();
  }
}

void Transfer::post() {
  const std::int64_t begin = chunks_.begin(posted_);
  const auto size = static_cast<std::size_t>(chunks_.end(posted_) - begin);
  const RequestId id = sends_ ? transport_->start_send(world_rank_, tag_, {from_ + begin, size})
                              : transport_->start_receive(world_rank_, tag_, {to_ + begin, size});
  window_[static_cast<std::size_t>(posted_ % kWindow)] = Request(*transport_, id);
  ++posted_;
}

int Transfer::advance() {
  int num_ended = 0;
  while (!is_done() && window_[static_cast<std::size_t>(ended_ % kWindow)].test()) {
    ++ended_;
    ++num_ended;
    if (posted_ < chunks_.count()) post();
  }
  return num_ended;
}

void Transfer::abandon() noexcept {
  for (Request& request : window_) {
    request.abandon();
  }
  ended_ = chunks_.count();
}

}  // namespace ulmus::comm
