#!/usr/bin/env bash
# Says which C++ files clang-format 19 would change. Cure: clang-format-19 -i FILE
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-format-19 >/dev/null; then
  echo "check_format: no clang-format-19; tools/install_dependencies.sh --dev installs it" >&2
  exit 1
fi
list_files() {
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z -- '*.h' '*.cc' '*.cu' '*.cuh'
  else
    find . -path ./build -prune -o \( -name '*.h' -o -name '*.cc' -o -name '*.cu' \
      -o -name '*.cuh' \) -type f -print0
  fi
}
num_files=$(list_files | tr -cd '\0' | wc -c)
[ "$num_files" -gt 0 ] || { echo "check_format: found no C++ file" >&2; exit 1; }
if output=$(list_files | xargs -0 -n 32 -P "$(nproc)" clang-format-19 --dry-run -Werror 2>&1); then
  echo "check_format: $num_files files, no problem" >&2
  exit 0
fi
# One line for each file instead of one for each place in it.
bad=$(printf '%s\n' "$output" | sed -nE 's/^([^:]+):[0-9]+:[0-9]+: error: .*/\1/p' | sort -u)
printf '%s\n' "${bad:-$output}" >&2
echo "check_format: not formatted; clang-format-19 -i FILE mends it" >&2
exit 1
