#!/usr/bin/env bash
# Installs what the tests need, builds them and runs them. Arguments go to CTest:
#
#   ./test.sh                everything but the labels gpu, nightly and fuzz
#   ./test.sh -L unit        one label: unit grad golden multi e2e slow cuda_emulated ...
#   ./test.sh -R ThreadPool  tests by name
#
# The preset is relassert: optimised, so that the tests that train take seconds, with the checks of
# our own invariants (ULMUS_DCHECK) that a release leaves out, so that a broken one fails here.
# PRESET=asan ./test.sh runs the same under another one.
set -euo pipefail
cd "$(dirname "$0")"
preset=${PRESET:-relassert}
build=build/$preset

selection=(-LE '^(gpu|nightly|fuzz)$')
for argument in "$@"; do
  case $argument in
    # Whoever names labels gets the ones that are left out otherwise, too.
    -L* | --label-*) selection=() ;;
  esac
done

tools/install_dependencies.sh --test
cmake --preset "$preset" -DULMUS_BUILD_TESTS=ON >/dev/null
cmake --build "$build" --parallel "$(nproc)"

rm -f "$build/junit.xml"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" \
  --output-junit "$PWD/$build/junit.xml" "${selection[@]}" "$@" || status=$?

if [ -f "$build/junit.xml" ]; then
  ctest --test-dir "$build" --show-only=json-v1 >"$build/tests.json"
  echo
  tools/count_tests.py "$build/junit.xml" "$build/tests.json" || [ $status -ne 0 ] || status=1
fi
exit $status
