"""Self-test of .clang-tidy: tidy reports every line of naming_violations.cc that wants it, and
no other. Options of clang-tidy that are misspelt are ignored in silence; this is what notices.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(ROOT, "tests", "tools", "naming_violations.cc")
TIDY = "clang-tidy-19"
SKIPPED = 77  # CTest's SKIP_RETURN_CODE


def wanted():
    found = set()
    with open(SOURCE, encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            match = re.search(r"// want: (\S+)$", line)
            if match:
                found.update((number, check) for check in match[1].split(","))
    return found


def reported():
    command = [TIDY, "--quiet", f"--config-file={ROOT}/.clang-tidy", SOURCE, "--", "-std=c++20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = set()
    for line in done.stdout.splitlines():
        match = re.match(r"[^:]+naming_violations\.cc:(\d+):\d+: (\w+): .*\[([\w.,-]+)\]$", line)
        if match:
            checks = [name for name in match[3].split(",") if name != "-warnings-as-errors"]
            found.update((int(match[1]), name, match[2]) for name in checks)
    return found


class CheckTidyTest(unittest.TestCase):
    maxDiff = None

    def test_every_violation_is_an_error_and_nothing_else_is_reported(self):
        expected = {(line, check, "error") for line, check in wanted()}
        self.assertGreater(len(expected), 35)
        self.assertEqual(sorted(reported()), sorted(expected))

    def test_every_naming_option_is_one_that_tidy_knows(self):
        done = subprocess.run([TIDY, f"--config-file={ROOT}/.clang-tidy", "--verify-config"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("No config errors detected", done.stdout + done.stderr)


if __name__ == "__main__":
    if shutil.which(TIDY) is None:
        print(f"skipped: {TIDY} is not installed (tools/install_dependencies.sh --dev)")
        sys.exit(SKIPPED)
    unittest.main()
