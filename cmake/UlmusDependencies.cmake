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
