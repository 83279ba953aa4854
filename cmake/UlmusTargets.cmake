# One interface target with the project's flags, and three functions: a room of the house, a test
# program, a benchmark program.

set(CMAKE_CXX_EXTENSIONS OFF)

# Presets that only need the result compile a room in a few pieces (CMAKE_UNITY_BUILD), in less than
# half the time; the debug preset and clang-tidy see every file by itself.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

option(ULMUS_DCHECKS "Keep the checks of our own invariants (ULMUS_DCHECK)" OFF)
set(ULMUS_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

if(ULMUS_SANITIZE MATCHES "thread" AND ULMUS_SANITIZE MATCHES "address")
  message(FATAL_ERROR "ULMUS_SANITIZE=${ULMUS_SANITIZE}: address and thread exclude each other")
endif()

find_program(ULMUS_CCACHE ccache)
if(ULMUS_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${ULMUS_CCACHE})
endif()

add_library(ulmus_flags INTERFACE)
target_compile_features(ulmus_flags INTERFACE cxx_std_20)
target_include_directories(ulmus_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(ulmus_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Werror
  # A value must not depend on whether the compiler fused a multiply and an add (design, law 2);
  # the fast kernels switch contraction on for themselves.
  -ffp-contract=off)
# g++ 12 sees overlapping copies where a one-character std::string is inserted (GCC bug 105651).
target_compile_options(ulmus_flags INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(ulmus_flags INTERFACE -march=x86-64-v3 -mtune=generic)
endif()
if(ULMUS_DCHECKS)
  target_compile_definitions(ulmus_flags INTERFACE ULMUS_DCHECKS)
endif()
if(ULMUS_SANITIZE)
  target_compile_options(ulmus_flags INTERFACE
    -fsanitize=${ULMUS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  target_link_options(ulmus_flags INTERFACE -fsanitize=${ULMUS_SANITIZE})
endif()

# ulmus_room(NAME SOURCES files... ROOMS rooms below... LIBRARIES foreign targets...)
function(ulmus_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  add_library(ulmus_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(ulmus_${name} PUBLIC ulmus_flags)
  foreach(room ${ARG_ROOMS})
    target_link_libraries(ulmus_${name} PUBLIC ulmus_${room})
  endforeach()
  target_link_libraries(ulmus_${name} PRIVATE ${ARG_LIBRARIES})
endfunction()

# ulmus_test(NAME SOURCES files... ROOMS rooms... LABEL one label [LIBRARIES ...] [TIMEOUT s])
# One program; every GoogleTest case in it becomes one CTest test.
function(ulmus_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  if(NOT ARG_LABEL)
    message(FATAL_ERROR "ulmus_test(${name}): LABEL is missing")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE
    ULMUS_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data"
    ULMUS_TEST_GOLDEN="${CMAKE_SOURCE_DIR}/tests/golden")
  foreach(room ${ARG_ROOMS})
    target_link_libraries(${name} PRIVATE ulmus_${room})
  endforeach()
  target_link_libraries(${name} PRIVATE ulmus_flags ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# ulmus_benchmark(NAME SOURCES files... ROOMS rooms...)
function(ulmus_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  foreach(room ${ARG_ROOMS})
    target_link_libraries(${name} PRIVATE ulmus_${room})
  endforeach()
  target_link_libraries(${name} PRIVATE ulmus_flags benchmark::benchmark_main)
endfunction()
