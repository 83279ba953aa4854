# Foreign libraries. All of them are Debian packages; nothing is downloaded.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

option(ULMUS_WITH_MPI "Ranks that are processes of an MPI program" ON)
if(ULMUS_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface only
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
