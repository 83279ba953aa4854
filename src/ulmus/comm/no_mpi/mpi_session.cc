#include "ulmus/comm/mpi_session.h"

#include "ulmus/base/error.h"

namespace ulmus::comm {

namespace {

[[noreturn]] void fail_without_mpi() {
  fail("this program was built without MPI; configure it with -DULMUS_WITH_MPI=ON");
}

}  // namespace

MpiSession::MpiSession(const MpiPatience& /*patience*/) { fail_without_mpi(); }
MpiSession::~MpiSession() = default;
int MpiSession::rank() const { fail_without_mpi(); }
int MpiSession::size() const { fail_without_mpi(); }
std::unique_ptr<Transport> MpiSession::make_transport() { fail_without_mpi(); }
void MpiSession::abort(int /*exit_code*/) { fail_without_mpi(); }
std::string MpiSession::library_version() { return "none"; }

}  // namespace ulmus::comm
