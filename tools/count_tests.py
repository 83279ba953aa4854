#!/usr/bin/env python3
"""Counts what CTest ran, failed and skipped, by label; names every skip and failure.

    tools/count_tests.py JUNIT_XML TESTS_JSON

JUNIT_XML is from ctest --output-junit, TESTS_JSON from ctest --show-only=json-v1 with the same
arguments (CTest 3.25 leaves the labels out of the former). The last line is
"N passed, N failed, N skipped"; the exit status is 1 when a test failed or none ran.
"""

import collections
import html
import json
import re
import sys

# A line of its own each; what a test printed is escaped, so it cannot look like one.
TEST_CASE = re.compile(r'^\s*<testcase name="([^"]*)".* status="(\w+)"/?>$')
SKIPPED = re.compile(r'^\s*<skipped message="([^"]*)"/>$')


def read_results(path):
    """{test name: (passed | failed | skipped, reason)}"""
    results = {}
    name = None
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            case = TEST_CASE.match(line)
            skip = SKIPPED.match(line)
            if case:
                name = html.unescape(case[1])
                status = {"run": "passed", "disabled": "skipped"}.get(case[2], "failed")
                results[name] = (status, case[2])
            elif skip and name is not None and re.match(r"SKIP_(?:RETURN|REGULAR)", skip[1]):
                # Other tests that did not run (a missing program) are failures.
                results[name] = ("skipped", "skipped itself")
            elif skip and name is not None:
                results[name] = ("failed", html.unescape(skip[1]))
    return results


def read_labels(path):
    with open(path, encoding="utf-8") as file:
        tests = json.load(file)["tests"]
    labels = {}
    for test in tests:
        for entry in test.get("properties", []):
            if entry["name"] == "LABELS":
                labels[test["name"]] = entry["value"]
    return labels


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results = read_results(sys.argv[1])
    labels = read_labels(sys.argv[2])
    by_label = collections.defaultdict(collections.Counter)
    total = collections.Counter()
    for name, (status, reason) in sorted(results.items()):
        total[status] += 1
        for label in labels.get(name) or ["(no label)"]:
            by_label[label][status] += 1
        if status != "passed":
            print(f"{status}: {name} ({reason})")
    print(f"{'label':<16}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for label, count in sorted(by_label.items()):
        print(f"{label:<16}{count['passed']:>8}{count['failed']:>8}{count['skipped']:>8}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
