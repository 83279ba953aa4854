#!/usr/bin/env bash
# What does a rank hold and send, over the sizes of the groups? One training step under layouts of 1
# to 4 ranks, bytes counted by the program:
#
#   benchmarks/sharding.sh [KEY=VALUE...]     for instance: benchmarks/sharding.sh model.layers=2
#
# The optimizer's bytes beside those of one rank divided by the ranks, and what the busiest rank
# sends for gradients and weights beside what a reduce-scatter and an all-gather send:
# 2 (n - 1) / n of each family's bytes, n being the ranks that hold copies of it.
set -euo pipefail
cd "$(dirname "$0")/.."
ulmus=build/release/ulmus
keys=()
for key in "$@"; do keys+=(--set "$key"); done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# layout RANKS EXPERT PARAMS: one step, its facts in the folder.
layout() {
  mpirun -n "$1" --oversubscribe --bind-to none \
    "$ulmus" bench step configs/bench/moe-cpu.toml --repetitions 1 --set device.threads=1 \
    --set "parallel.expert=$2" --set "parallel.params=$3" --set batch.micro_sequences=2 \
    "${keys[@]}" --json "$folder/$1.$2.$3" >/dev/null
}

for params in resident resharded; do
  for ranks in 1 2 3 4; do layout "$ranks" 1 "$params"; done
  layout 2 2 "$params"
  layout 4 2 "$params"
  layout 4 4 "$params"
done

python3 - "$folder" <<'PYTHON'
import json
import pathlib
import sys

MIB = 1048576
runs = {}
for path in pathlib.Path(sys.argv[1]).iterdir():
    ranks, expert, params = path.name.split(".")
    runs[params, int(ranks), int(expert)] = json.loads(path.read_text())

# Dense and expert bytes from the sums for one copy and for a half of the experts.
whole = runs["resident", 1, 1]["memory_bytes"]["parameters"]
experts = 2 * (whole - runs["resident", 2, 2]["memory_bytes"]["parameters"])
dense = whole - experts
print(f"weights: {dense / MIB:.1f} MiB dense, {experts / MIB:.1f} MiB in experts")
print("ranks expert params     MiB of: weights gradients optimizer    1/ranks ratio"
      "   MiB sent: dense  experts    formula ratio     rows")
for (params, ranks, expert), facts in sorted(runs.items()):
    memory, sent = facts["memory_bytes"], facts["sent_bytes"]
    share = runs[params, 1, 1]["memory_bytes"]["optimizer"] / ranks
    copies = ranks // expert
    formula = (2 * (ranks - 1) / ranks * dense + 2 * (copies - 1) / copies * experts / expert)
    traffic = sent["dense"] + sent["expert_replica"]
    ratio = f"{traffic / formula:5.3f}" if formula else "    -"
    print(f"{ranks:5} {expert:6} {params:9}  {memory['parameters'] / MIB:15.1f} "
          f"{memory['gradients'] / MIB:9.1f} {memory['optimizer'] / MIB:9.1f} "
          f"{share / MIB:10.1f} {memory['optimizer'] / share:5.3f}  "
          f"{sent['dense'] / MIB:15.1f} {sent['expert_replica'] / MIB:8.1f} {formula / MIB:10.1f} "
          f"{ratio} {sent['expert'] / MIB:8.1f}")
PYTHON
