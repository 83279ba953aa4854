#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ulmus::comm {

using Clock = std::chrono::steady_clock;

/// What one rank tells all others outside of any operation.
struct Notice {
  enum class Kind : std::uint8_t {
    kFailed,   ///< the sender ends; `text` says why
    kWaiting,  ///< the sender's patience is over, or it was asked; `text` says what it waits for
    kEnding,   ///< the sender has an error, maybe everybody's; `text` is FailureWatch's
  };
  static constexpr int kNumKinds = 3;
  Kind kind = Kind::kFailed;
  int from = 0;
  std::string text;
};

/// A message under way, by its slot in the transport that started it.
using RequestId = std::int32_t;

/// Moves bytes between the ranks of a world: what a back end has to supply. Everything else (sums,
/// collectives, deadlines, messages about failures) is written once above it, so that all back ends
/// give the same bits. One object for each rank, used by one thread.
///
/// Messages from one rank to another with one tag arrive in the order in which they were sent, and
/// a receive takes the first that is not taken yet. Buffers stay untouched until their request is
/// done. The length of a receive is that of its message: anything else is an Error that names both.
/// Nothing waits for another rank except wait_for_change, and abandon a little.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "thread", "mpi", "meta".
  virtual std::string_view backend() const = 0;
  /// Whether memory stands behind the bytes: false where messages only count.
  virtual bool has_memory() const { return true; }
  /// The lowest rank on this rank's machine: the same for all ranks that share it.
  virtual int node_leader() const = 0;

  /// This many requests may be under way at once: those allocate nothing from here on. Never less
  /// than before.
  virtual void reserve(std::size_t num_requests) = 0;
  /// `tag` < 2^kTagBits, a packed Tag. At most kMaxMessageBytes; 0 bytes are a message, too.
  virtual RequestId start_send(int to, std::uint32_t tag, std::span<const std::byte> bytes) = 0;
  virtual RequestId start_receive(int from, std::uint32_t tag, std::span<std::byte> bytes) = 0;
  /// Whether the request is done. Its id is given back then and may be used again.
  virtual bool test(RequestId request) = 0;
  /// Gives up a request that is not done, because its buffer is about to go; for unwinding. The
  /// buffer is not touched any more on return (MPI cannot promise that of a message that is halfway
  /// through; it waits a little). The peer finds no message: the run has failed.
  virtual void abandon(RequestId request) noexcept = 0;
  /// Whether the ranks can still end together in the library's way: no message was given up, and
  /// nothing has failed.
  virtual bool is_intact() const { return true; }

  /// Returns when a request of this rank or a notice may have changed, at `until` at the latest,
  /// or earlier without a reason.
  virtual void wait_for_change(Clock::time_point until) = 0;

  /// Tells all other ranks, without waiting for any of them. May be called when everything else
  /// has failed. Text beyond kMaxNoticeBytes is cut.
  virtual void post_notice(Notice::Kind kind, std::string_view text) noexcept = 0;
  /// The next notice from another rank, if there is one.
  virtual std::optional<Notice> poll_notice() = 0;

  /// What MPI libraries offer for tags: 2^23 on UCX.
  static constexpr std::uint32_t kTagBits = 23;
  static constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30U;
  static constexpr std::size_t kMaxNoticeBytes = 1000;
};

}  // namespace ulmus::comm
