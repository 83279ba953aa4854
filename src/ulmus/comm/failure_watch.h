#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/comm/ending.h"
#include "ulmus/comm/transport.h"

namespace ulmus::comm {

/// What one rank knows about the end of the run, and what it tells the others.
///
/// A rank that throws posts kFailed; every other rank raises with its reason. A rank whose deadline
/// passes posts kWaiting: that ends the run, and every rank that waits as well answers once with
/// its own. After a grace (half the timeout, at most 2 s), or as soon as all have spoken, each
/// raises: ranks that said nothing are the ones that others wait for, however long the chain; when
/// all spoke, their operations do not match, or the library loses messages.
///
/// A rank with an error that may be everybody's first posts kEnding, at which nobody raises.
class FailureWatch {
 public:
  FailureWatch(Transport& transport, std::chrono::milliseconds timeout);

  /// Takes the notices that are there. Cheap when there is none. Error for one that no rank of this
  /// world can have posted.
  void read_notices();
  /// Outside of a wait: CommError when the run is over.
  void check() const;
  /// A rank has failed, maybe this one.
  bool has_failed() const { return !failure_.empty(); }
  /// Somebody's patience is over: what awaited operations do from now on changes nothing.
  bool is_patience_over() const { return patience_over_; }
  /// Once a rank has failed: CommError with its reason and, unless empty, what this rank waits for.
  [[noreturn]] void raise(std::string_view waiting) const;
  /// Whether this rank has to say what it waits for: its deadline has passed, or another's has.
  bool must_speak(Clock::time_point deadline) const;
  /// Posts what this rank waits for. Not empty.
  void speak(std::string text);
  /// Once this rank has spoken: CommError when the grace is over or nobody is missing.
  void conclude_if_due() const;
  /// The next time at which something is due.
  Clock::time_point due(Clock::time_point deadline) const;

  /// This rank ends. Tells the others, unless they know that the run is over.
  void fail(std::string_view why) noexcept;
  /// This rank cannot go on; nothing is posted.
  void note_own_failure(std::string_view why) noexcept;

  /// Posts how this rank ends.
  void end(const Ending& ending);
  /// Once it has ended: how the ranks part, as soon as that is clear.
  std::optional<Parting> parting() const;

  std::chrono::milliseconds timeout() const { return timeout_; }

 private:
  /// How a rank ends, as it tells the others.
  struct Farewell {
    int status = 0;
    bool is_intact = true;  ///< its transport
    std::string message;    ///< its beginning
    std::string packed() const;
    static Farewell unpacked(const std::string& text);
  };
  void take(Notice notice);

  Transport& transport_;
  std::chrono::milliseconds timeout_;
  std::string failure_;                             // not empty: the run is over, and why
  bool was_told_ = false;                           // by another rank, that it has failed
  bool others_know_ = false;                        // that it is over
  bool patience_over_ = false;                      // of any rank
  bool has_spoken_ = false;                         // this rank
  Clock::time_point grace_end_;                     // once it has
  std::vector<std::string> texts_;                  // what each rank waits for, where it said so
  bool is_consequence_ = false;                     // this rank's ending
  std::vector<std::optional<Farewell>> farewells_;  // of each rank that has ended
};

/// "rank 3", "ranks 1 and 2", "ranks 1, 2 and 14 others"; in ascending order, without repeats.
std::string name_ranks(std::vector<int> ranks);

/// "0.3 s"
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace ulmus::comm
