#!/usr/bin/env bash
# clang-tidy, warnings as errors, on the C++ files under src/, tools/ and benchmarks/.
#
#   tools/run_tidy.sh             every file
#   tools/run_tidy.sh BASE        files that differ from the commit BASE, and new ones
#   BUILD=build/x tools/run_tidy.sh   with the compile commands of another build folder
#
# A header is checked through the source file of its name, or by itself where there is none. Tests
# are left out: GoogleTest's macros make them five times as slow and trip checks that are not ours.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/debug}
base=${1:-}
[ $# -le 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

if ! command -v clang-tidy-19 >/dev/null; then
  echo "run_tidy: clang-tidy-19 is missing; tools/install_dependencies.sh --dev installs it" >&2
  exit 1
fi
# Always, so that files added since are in the compile commands.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DULMUS_DCHECKS=ON \
  -DULMUS_BUILD_BENCHMARKS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null

list_files() {
  if [ -n "$base" ]; then
    git diff --name-only --diff-filter=d "$base" -- src tools benchmarks
    git ls-files --others --exclude-standard -- src tools benchmarks
  else
    local folders=()
    for folder in src tools benchmarks; do [ ! -d "$folder" ] || folders+=("$folder"); done
    find "${folders[@]}" -type f
  fi
}

# One translation unit for each changed file: its own, or the header's source file.
units() {
  local file
  list_files | { grep -E '\.(h|cc)$' || true; } | while read -r file; do
    if [ "${file%.h}" != "$file" ] && [ -f "${file%.h}.cc" ]; then
      echo "${file%.h}.cc"
    else
      echo "$file"
    fi
  done | sort -u
}

# Runs under xargs: prints nothing for a clean file.
tidy_one() {
  local file=$1 output status=0
  if [ "${file%.h}" != "$file" ]; then
    output=$(clang-tidy-19 --quiet "$file" -- -x c++ -std=c++20 -Isrc -I. 2>/dev/null) || status=$?
  else
    # Flags that only g++ knows are no errors.
    output=$(clang-tidy-19 --quiet --extra-arg=-Wno-unknown-warning-option -p "$BUILD_FOLDER" \
      "$file" 2>/dev/null) || status=$?
  fi
  [ -z "$output" ] || printf '%s\n' "$output"
  if [ $status -ne 0 ] && [ -z "$output" ]; then echo "$file: clang-tidy ended with $status"; fi
  return $((status != 0))
}
export -f tidy_one
export BUILD_FOLDER=$build

list=$(units)
num_files=$(printf '%s' "$list" | grep -c . || true)
if [ "$num_files" -eq 0 ]; then
  echo "run_tidy: no C++ file under src, tools or benchmarks differs from $base" >&2
  exit 0
fi
echo "run_tidy: $num_files files${base:+ that differ from $base}" >&2
# shellcheck disable=SC2016  # the inner shell expands it
if ! printf '%s\n' "$list" | xargs -P "$(nproc)" -I{} bash -c 'tidy_one "$1"' _ {}; then
  echo "run_tidy: failed" >&2
  exit 1
fi
