#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/comm/transport.h"
#include "ulmus/device/device.h"
#include "ulmus/device/trace.h"

namespace ulmus::comm {

class Operation;
class FailureWatch;
class World;
enum class Parting : std::uint8_t;
struct Ending;
struct HostOperations;

/// Element-wise combination of the ranks' values. Sums are formed in rank order 0 ... W - 1:
/// integers exactly (mod 2^64), f64 in f64, f32 in f32, rounded once per addition. Minimum and
/// maximum are exact; a NaN in any rank's value gives NaN.
enum class ReduceOp : std::uint8_t { kSum, kMin, kMax };

/// Bytes and operations of one group since the last reset, as this rank sees them.
struct Traffic {
  std::int64_t operations = 0;
  std::int64_t sent_bytes = 0;  ///< to other ranks; what a rank keeps for itself is not counted
};

/// A group of ranks, made by World::make_group. Member r of the group is rank `world_rank(r)` of
/// the world; "rank" below means member of the group.
///
/// Every member calls the same operations of a group in the same order. A group of one works and
/// copies. An operation of which no message ends within the world's timeout, or whose peer failed,
/// throws CommError on every rank that waits: nothing waits without a deadline, which counts from
/// the last message that ended. Operations that overlap with computing are objects (operations.h);
/// those here start and wait, and leave nothing on the caller's memory when they throw.
class Communicator {
  class Key {  // what World::make_group makes one with
    friend class World;
    Key() = default;
  };

 public:
  Communicator(Key key, World& world, std::uint32_t id, std::string name, std::vector<int> members);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  std::string_view name() const;
  int world_rank(int member) const;
  const Traffic& traffic() const;
  void reset_traffic();

  void barrier();
  /// The root's bytes on every rank; the same length everywhere.
  void broadcast(std::span<std::byte> bytes, int root);
  /// The same for a text, whose length only the root needs to know.
  void broadcast(std::string& text, int root);
  /// all[r * n, (r + 1) * n) = the n bytes that rank r gave. Overwritten; `mine` may be its own
  /// place there, and overlaps no other.
  void all_gather_bytes(std::span<std::byte> all, std::span<const std::byte> mine);
  /// Small host values, in place: the same result on every rank.
  void all_reduce(std::span<std::int64_t> values, ReduceOp op);
  void all_reduce(std::span<double> values, ReduceOp op);

 private:
  friend class World;
  friend class Operation;
  template <class T>
  void all_reduce_values(std::span<T> values, ReduceOp op);

  World& world_;
  std::uint32_t id_;
  std::string name_;
  std::vector<int> members_;  // their ranks in the world
  int rank_;
  Traffic traffic_;
  std::int64_t num_started_ = 0;
  std::unique_ptr<HostOperations> host_;
};

/// All ranks of a run: owns the transport, makes groups, advances what is under way, and turns a
/// failure anywhere into an error everywhere. Used by one thread; outlives its groups and their
/// operations.
class World {
 public:
  struct Options {
    /// > 0: the longest that an awaited operation may stand still: it counts from the last message
    /// of it that ended. Then the run is over: all ranks
    /// have a moment (half of this, at most 2 s) to say what they wait for, and those that say
    /// nothing are the ones to blame.
    std::chrono::milliseconds timeout{60000};
    /// > 0, the same on every rank: what is longer travels in messages of this size. Large, since
    /// between two messages both ends stand still (measured with MPI on one node: 64 MiB run 20 to
    /// 40 % faster than 4 MiB); bounded, since a message is what the timeout waits for.
    std::int64_t message_bytes = std::int64_t{64} << 20U;
  };
  World(std::unique_ptr<Transport> transport, const Options& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  std::string_view backend() const;
  /// Whether ranks are real: false where messages only count, and no memory is looked at.
  bool has_memory() const;
  /// The lowest rank on this rank's machine: the same for all ranks that share it.
  int node_leader() const;
  /// The group of all ranks, "world".
  Communicator& all();

  /// Collective over the world. `groups` are disjoint and cover every rank; the same on every rank.
  /// Returns the group that holds this rank, after it was used once: members agree on name and
  /// list, or an Error says who does not.
  std::unique_ptr<Communicator> make_group(std::string name,
                                           const std::vector<std::vector<int>>& groups);

  /// Advances every operation under way as far as possible without waiting. Cheap; call it between
  /// pieces of work. Throws CommError when another rank has failed.
  void progress();
  /// Null: none. While attached it records every operation that ends and every wait for one; it
  /// outlives its attachment, and the groups' names outlive it.
  void attach(Trace* trace) { trace_ = trace; }
  /// Tells the other ranks that this one ends, so that they end too. For whoever catches an
  /// exception of this rank.
  void fail(std::string_view why) noexcept;
  /// For a rank whose body threw: whether all ranks end with the same error. Tells them this one,
  /// and hears theirs for at most `patience`; other ranks do not fail by it. Nothing else but
  /// fail() follows.
  Parting part(const Ending& ending, std::chrono::milliseconds patience) noexcept;
  /// For a rank that another one is about to end: does nothing for at most `patience`.
  void wait_to_be_ended(std::chrono::milliseconds patience) noexcept;
  std::chrono::milliseconds timeout() const;

 private:
  friend class Operation;
  void enroll(const Operation& operation);
  void reserve_for(const Operation& operation);
  void withdraw(const Operation& operation) noexcept;
  void add(Operation& operation);
  void remove(Operation& operation) noexcept;
  void advance_all();
  void wait_for(Operation& operation);
  void record(const Operation& operation, TraceEvent::Track track,
              TraceEvent::Clock::time_point begin);
  std::uint32_t take_group_id();
  void check_agreement(const std::string& name, const std::vector<std::vector<int>>& groups);

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<FailureWatch> watch_;
  std::int64_t message_bytes_;
  std::vector<Operation*> under_way_;  // in the order in which they started
  std::size_t num_operations_ = 0;     // that exist
  std::size_t num_requests_ = 0;       // which they announced
  Trace* trace_ = nullptr;
  std::int64_t num_groups_ = 0;
  std::unique_ptr<Communicator> all_;
};

/// This rank waited too long, or another rank ended. The message names the rank that waits, group,
/// operation and its number in the group, and who is missing.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(message) {}
};

}  // namespace ulmus::comm
