#include "ulmus/comm/mpi_session.h"

#include <mpi.h>

#include <array>
#include <exception>

#include "ulmus/base/check.h"
#include "ulmus/comm/launch.h"
#include "ulmus/comm/mpi/mpi_transport.h"

namespace ulmus::comm {

namespace {

/// The lowest rank of the world that shares this rank's memory.
int find_node_leader(MpiState& state) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(watched(state, "MPI_Comm_split_type",
                    [&] {
                      return MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                                                 MPI_INFO_NULL, &node);
                    }),
            "MPI_Comm_split_type", state);
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(node, &members), "MPI_Comm_group", state);
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group", state);
  constexpr int kFirst = 0;  // they are in the order of their ranks
  int leader = 0;
  check_mpi(MPI_Group_translate_ranks(members, 1, &kFirst, all, &leader),
            "MPI_Group_translate_ranks", state);
  check_mpi(MPI_Group_free(&members), "MPI_Group_free", state);
  check_mpi(MPI_Group_free(&all), "MPI_Group_free", state);
  check_mpi(watched(state, "MPI_Comm_free", [&] { return MPI_Comm_free(&node); }), "MPI_Comm_free",
            state);
  return leader;
}

}  // namespace

MpiSession::MpiSession(const MpiPatience& patience) : state_(std::make_shared<MpiState>()) {
  MpiState& state = *state_;
  state.num_exceptions = std::uncaught_exceptions();
  state.rank = launched_rank().value_or(-1);
  state.timeout = patience.start;
  state.give_up = patience.give_up;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(
      watched(state, "MPI_Init_thread",
              [&] { return MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided); }),
      "MPI_Init_thread", state);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler",
            state);
  if (provided < MPI_THREAD_FUNNELED) {
    fail("this MPI (", library_version(), ") does not allow a program to have other threads");
  }
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &state.rank), "MPI_Comm_rank", state);
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &state.size), "MPI_Comm_size", state);
  const int expected = launched_ranks().value_or(state.size);
  if (state.size != expected) {
    fail("the launcher started ", expected, " processes, but ", library_version(), " sees ",
         state.size, ": start the program with that library's own mpirun, or srun --mpi=pmix");
  }
  state.node_leader = find_node_leader(state);
  state.timeout = patience.timeout;
}

MpiSession::~MpiSession() {
  if (state_->has_failed || std::uncaught_exceptions() > state_->num_exceptions) return;
  log_mpi(watched(*state_, "MPI_Finalize", [] { return MPI_Finalize(); }), "MPI_Finalize", *state_);
}

int MpiSession::rank() const { return state_->rank; }
int MpiSession::size() const { return state_->size; }

std::unique_ptr<Transport> MpiSession::make_transport() { return make_mpi_transport(state_); }

void MpiSession::abort(int exit_code) {
  const Watchdog watchdog(*state_, "MPI_Abort");
  for (;;) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);  // does not return
  }
}

std::string MpiSession::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  const std::string_view version(text.data(), static_cast<std::size_t>(length));
  return std::string(version.substr(0, version.find_first_of(",\n")));
}

}  // namespace ulmus::comm
