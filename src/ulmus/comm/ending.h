#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ulmus/base/error.h"
#include "ulmus/comm/communicator.h"

namespace ulmus::comm {

class MpiSession;

/// How an error ends a rank.
struct Ending {
  std::string message;
  ExitCode status = ExitCode::kFailed;
  ErrorScope scope = ErrorScope::kThisRank;
  bool is_consequence = false;  ///< a CommError: another rank has failed, or does not answer
};

/// Of the exception that is being handled.
Ending ending_of_current();

/// What a rank with an error knows about the others after World::part.
enum class Parting : std::uint8_t {
  kAlone,     ///< others have another error or none, or did not say
  kTogether,  ///< all have the same error, and MPI can be finalised
  kTorn,      ///< all have the same error, but messages were given up: MPI cannot be finalised
};

/// Tells people a line, after "error: ".
using TellError = std::function<void(std::string_view)>;

/// Ends one rank of a launched run whose body threw; returns the exit status, for a process that
/// then lets `world` and `session` go, or does not return. Nothing waits without end:
///
///   all ranks have the same     the first rank tells it; all end by themselves, or, where
///   message and status          messages were given up on the way, the first ends all of them
///   anything else               the rank tells it with its number and ends all of them; one that
///                               failed because another did leaves that to the other for a moment
///
/// Ranks hear from each other for a moment (half the timeout, at most 2 s), so that an error that
/// all meet by themselves is told once, too; for the timeout where the error is known to be
/// everybody's. A rank whose own error comes later than that is ended by the first.
int end_rank(MpiSession& session, World& world, const Ending& ending, const TellError& tell);

}  // namespace ulmus::comm
