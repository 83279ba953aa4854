"""Self-test of tools/check_format.sh and tools/run_tidy.sh: in a small tree of its own, a file that
is formatted passes and one that is not is named; a change without C++ files is no fault.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = ("clang-format-19", "clang-tidy-19", "git")
SKIPPED = 77  # CTest's SKIP_RETURN_CODE


class GatesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for name in ("tools/check_format.sh", "tools/run_tidy.sh", ".clang-format"):
            os.makedirs(os.path.dirname(os.path.join(self.root, name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.root, name))
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(p NONE)\n")
        self.write("src/good.h", "#pragma once\n\ninline int one() { return 1; }\n")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "first")

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.root, check=True)

    def run_gate(self, *command):
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)

    def test_names_what_is_not_formatted(self):
        self.assertEqual(self.run_gate("tools/check_format.sh").returncode, 0)
        self.write("src/bad.cc", "int   two( ) {return 2;}\n")
        self.git("add", ".")
        done = self.run_gate("tools/check_format.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/bad.cc", done.stderr)
        self.assertNotIn("good.h", done.stderr)

    def test_a_tree_without_sources_is_a_fault(self):
        self.git("rm", "-q", "src/good.h")
        self.assertEqual(self.run_gate("tools/check_format.sh").returncode, 1)

    def test_tidy_passes_a_change_without_sources(self):
        self.write("notes.md", "text\n")
        self.git("add", ".")
        done = self.run_gate("tools/run_tidy.sh", "HEAD")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no C++ file", done.stderr)


if __name__ == "__main__":
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"SKIPPED: {', '.join(missing)} missing", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
