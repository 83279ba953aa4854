#!/usr/bin/env bash
# How fast are two ranks of one thread with the experts shared, against one rank of two threads?
# Both train the same step, in turns, so that the machine's moods fall on both:
#
#   benchmarks/ranks.sh [ROUNDS] [KEY=VALUE...]     for instance: benchmarks/ranks.sh 5
#
# Prints every reading and the ratio of the medians, once with uniform and once with learned
# routing.
set -euo pipefail
cd "$(dirname "$0")/.."
ulmus=build/release/ulmus
rounds=${1:-5}
shift || true
keys=()
for key in "$@"; do keys+=(--set "$key"); done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d)
trap 'test $? = 0 || cat "$folder/errors" >&2; rm -rf "$folder"' EXIT

# measure ROUTING ROUND: three steps each way, their facts in the folder.
measure() {
  local routing=$1 round=$2
  "$ulmus" bench step configs/bench/moe-cpu.toml --repetitions 3 --set device.threads=2 \
    --set "moe.routing=$routing" "${keys[@]}" --json "$folder/$routing.one.$round" >/dev/null
  mpirun -n 2 --oversubscribe --bind-to none \
    "$ulmus" bench step configs/bench/moe-cpu.toml --repetitions 3 --set device.threads=1 \
    --set parallel.expert=2 --set "moe.routing=$routing" "${keys[@]}" \
    --json "$folder/$routing.two.$round" >/dev/null
}

for routing in uniform learned; do
  for round in $(seq "$rounds"); do
    measure "$routing" "$round" 2>"$folder/errors"
  done
done

python3 - "$folder" "$rounds" <<'PYTHON'
import json
import statistics
import sys


def median_of(readings, name):
    return statistics.median(reading[name] for reading in readings)


folder, rounds = sys.argv[1], int(sys.argv[2])
for routing in ("uniform", "learned"):
    runs = {kind: [json.load(open(f"{folder}/{routing}.{kind}.{round_}"))
                   for round_ in range(1, rounds + 1)] for kind in ("one", "two")}
    speeds = {kind: [run["tokens_per_s"] for run in runs[kind]] for kind in runs}
    for kind in ("one", "two"):
        first = runs[kind][0]
        print(f"{routing}: {first['layout']}, {first['threads']} threads a rank: tokens/s "
              + " ".join(f"{speed:.0f}" for speed in speeds[kind])
              + f"; fraction of the ceiling {median_of(runs[kind], 'fraction'):.3f}"
              + f"; load max/mean {first['max_over_mean']:.2f}")
    ratios = [two / one for one, two in zip(speeds["one"], speeds["two"])]
    print(f"{routing}: two ranks / one rank = "
          f"{statistics.median(speeds['two']) / statistics.median(speeds['one']):.3f} "
          f"(by round {min(ratios):.3f} to {max(ratios):.3f})")
PYTHON
