#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/comm/tag.h"
#include "ulmus/comm/transfer.h"
#include "ulmus/tensor/tensor_view.h"

namespace ulmus::comm {

/// A collective that runs beside computing: built once, with all its memory, then started as often
/// as needed. Members of a group start their operations in the same order; several may be under way
/// at once, and finish in any order. Starting, advancing and waiting allocate nothing.
///
/// Its buffers stay untouched from start() to the end of wait(), or until it is destroyed: whoever
/// owns both declares the buffers first. When start() or wait() throws, its messages are given up,
/// and the buffers are free.
class Operation {
 public:
  virtual ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Started and not yet waited for.
  bool is_under_way() const;
  /// Returns when it is done; advances everything else under way in the meantime. Nothing happens
  /// when it was not started.
  void wait();
  // start() belongs to each kind.

 protected:
  Operation(Communicator& group, OperationKind kind);
  /// At most this many requests of one transfer are under way at once: kWindow where the length is
  /// not known before start().
  std::size_t requests_of(std::int64_t num_bytes) const;
  /// For constructors, once: how many requests of this operation may be under way at once.
  void announce(std::size_t num_requests);
  /// What start() does: gives the operation its number, posts its first messages and goes on as far
  /// as possible. An exception gives all of it up.
  template <class Post>
  void launch(const Post& post);
  /// The message of this operation to or from a member. What is sent counts as traffic.
  void send(Transfer& transfer, int member, std::span<const std::byte> bytes);
  void send(Transfer& transfer, int member, std::span<const std::byte> bytes,
            std::int64_t chunk_bytes);
  void receive(Transfer& transfer, int member, std::span<std::byte> bytes);
  Channel channel(int member);
  void count_steps(int num_steps) { num_steps_ += num_steps; }
  /// Advances each of the transfers; whether all are done.
  bool advance_transfers(std::span<Transfer> transfers);
  static void add_awaited(std::vector<int>& members, std::span<const Transfer> transfers);
  static void abandon_transfers(std::span<Transfer> transfers) noexcept;
  /// False where no memory stands behind the views: nothing is copied or summed then.
  bool has_memory() const;
  void check_device(const Device& device) const;
  const Communicator& group() const { return group_; }
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

 private:
  friend class World;
  friend class PairwiseExchange;
  enum class State : std::uint8_t { kIdle, kRunning, kDone };
  /// Goes on without waiting; whether it is done.
  virtual bool advance() = 0;
  /// Members whose messages are not there or not taken, for messages; any order, repeats allowed.
  virtual void list_awaited(std::vector<int>& members) const = 0;
  /// Gives up every message that is under way.
  virtual void abandon() noexcept = 0;
  void begin();
  void give_up() noexcept;
  /// "reduce_scatter 17 of group dense"
  std::string description() const;
  /// "rank 3" or "ranks 3, 4", in the world's numbers.
  std::string awaited_ranks() const;

  Communicator& group_;
  OperationKind kind_;
  State state_ = State::kIdle;
  std::int64_t number_ = 0;  // in the group, from 1
  TraceEvent::Clock::time_point begin_;
  std::size_t num_requests_ = 0;  // announced
  std::int64_t num_steps_ = 0;    // messages that have ended: the deadline counts from the last
};

template <class Post>
void Operation::launch(const Post& post) {
  begin();
  try {
    post();
    group_.world_.advance_all();
  } catch (...) {
    give_up();
    throw;
  }
}

/// A transfer to and one from every other member of an operation's group.
class PairwiseExchange {
 public:
  /// `operation` has this as a member.
  explicit PairwiseExchange(Operation& operation);
  /// Posts all of them, each rank with a different partner at a time: to_send(member) and
  /// to_receive(member) are the bytes.
  template <class ToSend, class ToReceive>
  void start(const ToSend& to_send, const ToReceive& to_receive);
  /// Posts those with one member, which start() would have posted.
  void start_with(int member, std::span<const std::byte> to_send, std::span<std::byte> to_receive);
  /// Advances without waiting; whether all are done.
  bool advance();
  bool advance_sends() { return operation_.advance_transfers(sends_); }
  bool advance_receives() { return operation_.advance_transfers(receives_); }
  bool is_sent(int member) const { return sends_[static_cast<std::size_t>(member)].is_done(); }
  void add_awaited(std::vector<int>& members) const;
  void abandon() noexcept;

 private:
  Operation& operation_;
  std::vector<Transfer> sends_;  // by member
  std::vector<Transfer> receives_;
};

template <class ToSend, class ToReceive>
void PairwiseExchange::start(const ToSend& to_send, const ToReceive& to_receive) {
  const int rank = operation_.rank();
  const int size = operation_.size();
  for (int step = 1; step < size; ++step) {
    const int from = (rank - step + size) % size;
    const int to = (rank + step) % size;
    operation_.receive(receives_[static_cast<std::size_t>(from)], from, to_receive(from));
    operation_.send(sends_[static_cast<std::size_t>(to)], to, to_send(to));
  }
}

/// Pieces of a buffer of `numel` elements, one for each rank: piece r is [begin[r], begin[r + 1]),
/// begin[0] = 0, ascending, begin[W] = numel. Pieces may be empty.
using PieceBounds = std::vector<std::int64_t>;

/// buffer[piece r] on rank r = sum over ranks, in rank order, of their buffer[piece r]; the rest of
/// the buffer keeps this rank's own values.
class ReduceScatter final : public Operation {
 public:
  /// `buffer` is one-dimensional, contiguous, f32, f64 or i64. `staging` holds what other ranks
  /// send: u8, at least staging_bytes(...), not shared with another operation under way.
  ReduceScatter(Communicator& group, TensorView buffer, PieceBounds begin, TensorView staging,
                Device& device);
  static std::int64_t staging_bytes(const PieceBounds& begin, DType dtype);
  ~ReduceScatter() override = default;
  void start();

 private:
  bool advance() override;
  void list_awaited(std::vector<int>& members) const override;
  void abandon() noexcept override;
  bool advance_receives();
  void post_receives();
  void post_chunk(std::int64_t chunk);
  bool has_arrived(std::int64_t chunk);
  void add_chunk(std::int64_t chunk);
  std::byte* own_piece() const;
  std::byte* slot(std::int64_t chunk, int member) const;
  Request& request(std::int64_t chunk, int member);

  Device& device_;
  std::byte* buffer_;
  std::byte* staging_;
  DType dtype_;
  PieceBounds begin_;
  std::int64_t slot_bytes_;
  std::int64_t num_slots_;
  Chunks chunks_;            // of this rank's piece
  std::int64_t posted_ = 0;  // of these
  std::int64_t added_ = 0;
  std::vector<Transfer> sends_;    // by member
  std::vector<Request> receives_;  // [slots, W]
  std::vector<const std::byte*> sources_;
};

/// buffer[piece r] on every rank = that of rank r.
class AllGather final : public Operation {
 public:
  AllGather(Communicator& group, TensorView buffer, PieceBounds begin, Device& device);
  ~AllGather() override = default;
  void start();

 private:
  bool advance() override { return exchange_.advance(); }
  void list_awaited(std::vector<int>& members) const override { exchange_.add_awaited(members); }
  void abandon() noexcept override { exchange_.abandon(); }
  std::span<std::byte> piece(int member) const;

  std::byte* buffer_;
  std::int64_t element_bytes_;
  PieceBounds begin_;
  PairwiseExchange exchange_{*this};
};

/// Sums (or minima, maxima) over all ranks, the same bits on every rank: reduce-scatter and
/// all-gather, for several small tensors of different types and operators in one round trip of
/// each.
class AllReduce final : public Operation {
 public:
  struct Part {
    TensorView values;  ///< contiguous, f32, f64 or i64; in place
    ReduceOp op = ReduceOp::kSum;
  };
  AllReduce(Communicator& group, std::vector<Part> parts, TensorView staging, Device& device);
  static std::int64_t staging_bytes(std::span<const Part> parts, int group_size);
  ~AllReduce() override = default;
  void start();

 private:
  bool advance() override;
  void list_awaited(std::vector<int>& members) const override;
  void abandon() noexcept override;
  void pack();
  void unpack();
  void reduce_piece();
  std::span<std::byte> piece(int member) const;
  std::span<std::byte> slot(int member) const;

  Device& device_;
  std::vector<Part> parts_;
  std::vector<std::int64_t> part_begin_;  // of each in the packed bytes
  std::byte* packed_;
  std::byte* slots_;
  std::int64_t slot_bytes_;
  std::int64_t num_units_;
  bool is_reduced_ = false;  // this rank's piece
  PairwiseExchange scatter_{*this};
  PairwiseExchange gather_{*this};
  std::vector<bool> gather_posted_;  // by member
  std::vector<const std::byte*> sources_;
};

/// Blocks of rows of one matrix to another: rank s gets rows [in_begin[s], in_begin[s + 1]) of
/// every rank, and finds those of rank s at rows [out_begin[s], out_begin[s + 1]) of its own.
class AllToAll final : public Operation {
 public:
  AllToAll(Communicator& group, Device& device);
  ~AllToAll() override = default;
  /// `out` and `in` share dtype and row length, are contiguous and do not overlap. Bounds: W + 1
  /// ascending row numbers within the matrix (not necessarily from 0), read before this returns;
  /// what rank a sends to b and b expects of a agree, or the transport's Error says so.
  void start(TensorView out, std::span<const std::int64_t> out_begin, ConstTensorView in,
             std::span<const std::int64_t> in_begin);

 private:
  bool advance() override { return exchange_.advance(); }
  void list_awaited(std::vector<int>& members) const override { exchange_.add_awaited(members); }
  void abandon() noexcept override { exchange_.abandon(); }

  Device& device_;
  PairwiseExchange exchange_{*this};
};

}  // namespace ulmus::comm
