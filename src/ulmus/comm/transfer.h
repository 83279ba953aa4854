#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ulmus/comm/transport.h"

namespace ulmus::comm {

/// One message under way; gives it up when destroyed before it is done.
class Request {
 public:
  Request() = default;
  Request(Transport& transport, RequestId id) : transport_(&transport), id_(id) {}
  ~Request() { abandon(); }
  Request(Request&& other) noexcept : transport_(other.transport_), id_(other.id_) {
    other.transport_ = nullptr;
  }
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      abandon();
      transport_ = other.transport_;
      id_ = other.id_;
      other.transport_ = nullptr;
    }
    return *this;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  bool is_pending() const { return transport_ != nullptr; }
  /// Whether nothing is pending (any more).
  bool test() {
    if (transport_ != nullptr && transport_->test(id_)) transport_ = nullptr;
    return transport_ == nullptr;
  }
  void abandon() noexcept {
    if (transport_ != nullptr) transport_->abandon(id_);
    transport_ = nullptr;
  }

 private:
  Transport* transport_ = nullptr;
  RequestId id_ = 0;
};

/// A length in pieces of `chunk_bytes`. The first is the odd one, so that ranks that disagree about
/// the length find out with the first message (unless they differ by whole chunks: then the
/// deadline ends it). No bytes are one empty chunk, since each message says that a rank has come.
struct Chunks {
  std::int64_t total_bytes = 0;
  std::int64_t chunk_bytes = 1;

  std::int64_t count() const {
    return std::max<std::int64_t>(1, (total_bytes + chunk_bytes - 1) / chunk_bytes);
  }
  std::int64_t end(std::int64_t chunk) const {
    return total_bytes - (count() - 1 - chunk) * chunk_bytes;
  }
  std::int64_t begin(std::int64_t chunk) const { return chunk == 0 ? 0 : end(chunk - 1); }
};

/// The other end of a message, and whose it is.
struct Channel {
  Transport& transport;
  int world_rank;
  std::uint32_t tag;
};

/// Bytes of any length to or from one rank: in chunks, few of them under way at once. Both ends cut
/// alike. Destroyed before it is done, it gives up what is under way.
class Transfer {
 public:
  static constexpr std::int64_t kWindow = 4;

  void send(const Channel& channel, std::span<const std::byte> bytes, std::int64_t chunk_bytes);
  void receive(const Channel& channel, std::span<std::byte> bytes, std::int64_t chunk_bytes);
  /// Tests and posts without waiting; returns how many chunks ended.
  int advance();
  /// Gives up what is under way, and is done.
  void abandon() noexcept;
  bool is_done() const { return ended_ == chunks_.count(); }

 private:
  void start(const Channel& channel, std::int64_t total_bytes, std::int64_t chunk_bytes);
  void post();

  Transport* transport_ = nullptr;
  int world_rank_ = 0;
  std::uint32_t tag_ = 0;
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  bool sends_ = false;
  Chunks chunks_;
  std::int64_t posted_ = 0;
  std::int64_t ended_ = 1;  // done: nothing was started
  std::array<Request, kWindow> window_;
};

}  // namespace ulmus::comm
