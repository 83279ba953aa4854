#!/usr/bin/env python3
"""How much of the traffic between ranks passes behind computing? Reads a trace.json of run.trace:

    benchmarks/overlap.py runs/mine/trace.json

For every rank, group and kind of transfer: how many there were, how long they were under way in
sum, and which part of that time the rank spent in kernels (everything but the exchange of token
rows) and waiting for another rank.
"""

import bisect
import collections
import json
import sys


def merged(spans):
    """The union of (begin, end) spans, in order."""
    union = []
    for begin, end in sorted(spans):
        if union and begin <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([begin, end])
    return union


def covered(begin, end, union):
    """How much of [begin, end) a union of spans, in order, covers."""
    total = 0.0
    for i in range(max(0, bisect.bisect_left(union, [begin]) - 1), len(union)):
        start, stop = union[i]
        if start >= end:
            break
        total += max(0.0, min(end, stop) - max(begin, start))
    return total


def read_events(path):
    """Spans of kernels and waits by rank; transfers by (rank, group, name)."""
    kernels, waits = collections.defaultdict(list), collections.defaultdict(list)
    transfers, starts = collections.defaultdict(list), {}
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    if trace["otherData"]["dropped_events"] > 0:
        sys.exit(f"{path} lacks events: trace fewer steps")
    for event in trace["traceEvents"]:
        rank = event["pid"]
        if event["ph"] == "X":
            span = (event["ts"], event["ts"] + event["dur"])
            if event["cat"] == "operations" and event["name"] != "all_to_all":
                kernels[rank].append(span)
            elif event["cat"] == "waits":
                waits[rank].append(span)
        elif event["ph"] == "b":
            starts[event["id"]] = event
        elif event["ph"] == "e":
            first = starts.pop(event["id"])
            transfers[rank, first["args"]["group"], first["name"]].append(
                (first["ts"], event["ts"]))
    return kernels, waits, transfers


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    kernels, waits, transfers = read_events(sys.argv[1])
    kernels = {rank: merged(spans) for rank, spans in kernels.items()}
    waits = {rank: merged(spans) for rank, spans in waits.items()}
    print("rank  group         transfer        number  under way ms  in kernels  waited for")
    for (rank, group, name), spans in sorted(transfers.items()):
        total = sum(end - begin for begin, end in spans) or 1e-9
        parts = [sum(covered(begin, end, other.get(rank, [])) for begin, end in spans) / total
                 for other in (kernels, waits)]
        print(f"{rank:4}  {group:12}  {name:14}  {len(spans):6}  {total / 1000:12.1f}  "
              f"{parts[0]:10.3f}  {parts[1]:10.3f}")


if __name__ == "__main__":
    main()
