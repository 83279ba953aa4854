"""Self-test of tools/count_tests.py on a real CTest run with one test of each outcome."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COUNT = os.path.join(ROOT, "tools", "count_tests.py")

TESTS = """
add_test(a.passes "/bin/sh" "-c" "echo '<testcase name=\\"x\\" status=\\"run\\"/>'")
set_tests_properties(a.passes PROPERTIES LABELS "unit")
add_test(a.passes_too "/bin/sh" "-c" "true")
set_tests_properties(a.passes_too PROPERTIES LABELS "unit;grad")
add_test(a.skips_by_status "/bin/sh" "-c" "exit 77")
set_tests_properties(a.skips_by_status PROPERTIES LABELS "gpu" SKIP_RETURN_CODE 77)
add_test(a.skips_by_word "/bin/sh" "-c" "echo SKIPPED")
set_tests_properties(a.skips_by_word PROPERTIES LABELS "gpu" SKIP_REGULAR_EXPRESSION SKIPPED)
add_test(a.disabled "/bin/sh" "-c" "true")
set_tests_properties(a.disabled PROPERTIES LABELS "unit" DISABLED TRUE)
"""
FAILING = """
add_test(a.fails "/bin/sh" "-c" "exit 1")
set_tests_properties(a.fails PROPERTIES LABELS "grad")
add_test(a.hangs "/bin/sleep" "20")
set_tests_properties(a.hangs PROPERTIES LABELS "slow" TIMEOUT 1)
add_test(a.not_built "a.not_built")
"""


def count(tests):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
            file.write(tests)
        junit, listing = os.path.join(folder, "junit.xml"), os.path.join(folder, "tests.json")
        subprocess.run(["ctest", "--test-dir", folder, "--output-junit", junit],
                       capture_output=True, check=False)
        with open(listing, "w", encoding="utf-8") as file:
            subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], stdout=file,
                           stderr=subprocess.DEVNULL, check=False)
        return subprocess.run([sys.executable, COUNT, junit, listing], capture_output=True,
                              text=True, check=False)


class CountTestsTest(unittest.TestCase):
    def test_passed_and_skipped_tests_are_counted_apart(self):
        done = count(TESTS)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "2 passed, 0 failed, 3 skipped")
        rows = {line.split()[0]: line.split()[1:] for line in lines if len(line.split()) == 4}
        self.assertEqual(rows["unit"], ["2", "0", "1"])
        self.assertEqual(rows["grad"], ["1", "0", "0"])
        self.assertEqual(rows["gpu"], ["0", "0", "2"])
        self.assertEqual(done.returncode, 0)

    def test_a_failure_a_timeout_and_a_missing_program_are_failures(self):
        done = count(TESTS + FAILING)
        self.assertEqual(done.stdout.splitlines()[-1], "2 passed, 3 failed, 3 skipped")
        for name in ("a.fails", "a.hangs", "a.not_built"):
            self.assertIn(f"failed: {name} (", done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_a_run_in_which_nothing_passed_is_no_success(self):
        skip = 'add_test(a "/bin/sh" "-c" "exit 77")\n' \
               "set_tests_properties(a PROPERTIES SKIP_RETURN_CODE 77)\n"
        done = count(skip)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 0 failed, 1 skipped")
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    if shutil.which("ctest") is None:
        print("skipped: ctest is not on the PATH")
        sys.exit(77)
    unittest.main()
