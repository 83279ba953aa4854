#!/usr/bin/env bash
# clang-tidy, warnings as errors, on the C++ files under src/, tools/ and benchmarks/.
#
#   tools/run_tidy.sh             every file
#   tools/run_tidy.sh BASE        files that differ from the commit BASE, and new ones
#   BUILD=build/x tools/run_tidy.sh   with the compile commands in build/x and build/x-unity
#
# A header is checked through the source file of its name, or by itself where there is none. Tests
# are left out: GoogleTest's macros make them five times as slow and trip checks that are not ours.
#
# Most checks look at every declaration of every header, over and over for each file. So they run on
# the unity sources, where many files share their headers; a unity source is taken as a whole when
# one of its files is. The analyzer looks at the functions of the one source file it is given, and
# therefore runs on each file apart.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/debug}
base=${1:-}
[ $# -le 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }

if ! command -v clang-tidy-19 >/dev/null; then
  echo "run_tidy: clang-tidy-19 is missing; tools/install_dependencies.sh --dev installs it" >&2
  exit 1
fi
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

# The sources of units() that lie in a unity source, as PATH UNITY_SOURCE.
shared_units() {
  find "$build-unity" -name 'unity_*.cxx' -exec grep -HF '#include "' {} + |
    sed -nE "s|^([^:]+):#include \"$PWD/(.+)\"\$|\2 \1|p" | sort |
    join - <(printf '%s\n' "$list")
}

# tidy_one KIND FILE, under xargs: prints nothing for a clean file. KIND says which checks run:
# "all", "unity" (not the analyzer's, and a unity source does include sources) or "analyzer".
tidy_one() {
  local kind=$1 file=$2 output status=0
  local options=(--quiet)
  case $kind in
    unity) options+=(--checks=-bugprone-suspicious-include -p "$BUILD_FOLDER-unity") ;;
    analyzer) options+=("--checks=-*,$ANALYZER_CHECKS" -p "$BUILD_FOLDER") ;;
    *) options+=(-p "$BUILD_FOLDER") ;;
  esac
  if [ "${file%.h}" != "$file" ]; then
    output=$(clang-tidy-19 --quiet "$file" -- -x c++ -std=c++20 -Isrc -I. 2>/dev/null) || status=$?
  else
    # Flags that only g++ knows are no errors.
    output=$(clang-tidy-19 "${options[@]}" --extra-arg=-Wno-unknown-warning-option "$file" \
      2>/dev/null) || status=$?
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

# Always, so that files added since are in the compile commands.
find "$build-unity" -name 'unity_*.cxx' -delete 2>/dev/null || true
for unity in OFF ON; do
  folder=$build
  [ $unity = OFF ] || folder=$build-unity
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DULMUS_DCHECKS=ON \
    -DULMUS_BUILD_BENCHMARKS=ON -DCMAKE_UNITY_BUILD=$unity -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
done

ANALYZER_CHECKS=$(grep -oE -- '-?clang-analyzer-[^,]+' .clang-tidy | paste -sd,)
export ANALYZER_CHECKS

shared=$(shared_units)
work=$(
  printf '%s\n' "$shared" | awk 'NF == 2 && !seen[$2]++ {print "unity", $2}'
  printf '%s\n' "$shared" | awk 'NF == 2 {print "analyzer", $1}'
  join -v 2 <(printf '%s\n' "$shared") <(printf '%s\n' "$list") | sed 's/^/all /'
)
echo "run_tidy: $num_files files${base:+ that differ from $base}" >&2
# shellcheck disable=SC2016  # the inner shell expands it
if ! printf '%s\n' "$work" | xargs -P "$(nproc)" -n 2 bash -c 'tidy_one "$1" "$2"' _; then
  echo "run_tidy: failed" >&2
  exit 1
fi
