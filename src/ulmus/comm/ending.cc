#include "ulmus/comm/ending.h"

#include <algorithm>
#include <exception>
#include <new>

#include "ulmus/comm/mpi_session.h"

namespace ulmus::comm {

Ending ending_of_current() {
  try {
    throw;
  } catch (const CommError& error) {
    return {error.what(), error.exit_code(), error.scope(), true};
  } catch (const Error& error) {
    return {error.what(), error.exit_code(), error.scope()};
  } catch (const std::bad_alloc&) {
    return {.message = "out of memory"};
  } catch (const std::exception& error) {
    return {.message = error.what()};
  }
}

int end_rank(MpiSession& session, World& world, const Ending& ending, const TellError& tell) {
  using std::chrono::milliseconds;
  const milliseconds moment = std::min(milliseconds(2000), world.timeout() / 2);
  const bool is_first = world.rank() == 0;
  const int status = static_cast<int>(ending.status);
  const Parting parting =
      world.part(ending, ending.scope == ErrorScope::kEveryRank ? world.timeout() : moment);
  if (parting == Parting::kAlone) {
    tell(concat("rank ", world.rank(), ": ", ending.message));
    world.fail(ending.message);
    session.abort(status);
  }
  if (is_first) tell(ending.message);
  if (parting == Parting::kTorn) {
    if (!is_first) world.wait_to_be_ended(moment);  // not before the first has told
    session.abort(status);
  }
  return status;
}

}  // namespace ulmus::comm
