#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ulmus/comm/transport.h"

namespace ulmus::comm {

/// Messages of one rank to or from another.
struct MessageCount {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};

/// Any rank of a world of any size, without the others: messages only count, and are done at once.
/// No memory is looked at, so views may belong to a meta device. Operations on it leave tensors as
/// they are. Host calls behave as if all ranks were like this one, except that all_reduce leaves
/// the values as they are.
class MetaTransport final : public Transport {
 public:
  MetaTransport(int rank, int size);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view backend() const override { return "meta"; }
  bool has_memory() const override { return false; }
  int node_leader() const override { return rank_; }
  void reserve(std::size_t /*num_requests*/) override {}
  RequestId start_send(int to, std::uint32_t tag, std::span<const std::byte> bytes) override;
  RequestId start_receive(int from, std::uint32_t tag, std::span<std::byte> bytes) override;
  bool test(RequestId /*request*/) override { return true; }
  void abandon(RequestId /*request*/) noexcept override {}
  void wait_for_change(Clock::time_point /*until*/) override {}
  void post_notice(Notice::Kind /*kind*/, std::string_view /*text*/) noexcept override {}
  std::optional<Notice> poll_notice() override { return std::nullopt; }

  /// By rank of the world, since the last reset.
  const std::vector<MessageCount>& sent() const { return sent_; }
  const std::vector<MessageCount>& received() const { return received_; }
  void reset_counts();

 private:
  int rank_;
  int size_;
  std::vector<MessageCount> sent_;
  std::vector<MessageCount> received_;
};

}  // namespace ulmus::comm
