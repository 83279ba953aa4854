"""Self-test of tools/check_docs.py: documents with one fault of each kind, and good ones."""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(ROOT, "tools", "check_docs.py")

SOURCES = {
    "src/ulmus/base/check.h": "#pragma once\nint checked(int x);\n",
    "src/ulmus/base/README.md": "# base\n\nStart with `check.h`, then `base/check.h`.\n",
    "configs/a.toml": "",
    "tools/run.sh": "",
}

# Every line of this README says what is wrong with it, in the order of BAD.
BAD_README = """# Bad

[gone](docs/gone.md)
[outside](../)
![picture](docs/gone.png)
[heading](docs/page.md#no-such-heading)
[defined][ref]
`src/ulmus/base/gone.h` `ulmus/gone/x.h` `gone.sh` `base/gone.h:12` `tools/gone/`

[ref]: docs/gone.md

```cpp
#include "ulmus/base/check.h"
int twice(int x) { return checked(x, x); }
```
"""
BAD = [(3, "link"), (4, "link"), (5, "link"), (6, "link")] + [(8, "path")] * 5 + \
    [(10, "link"), (12, "cpp")]

GOOD_README = """# Good

[page](docs/page.md) [heading](docs/page.md#the-heading-of-it-1) [self](#good) [web](https://a.b/c)
`src/ulmus/base/check.h` `ulmus/base/check.h` `base/check.h:12` `check.h`
`./tools/run.sh` `configs/`
`x.data()` `a/b` `build/release/ulmus` `runs/quickstart` `tokens/s` `config.toml` `--set a.b=value`
<!-- `src/gone.h` and [gone](gone.md) in a comment -->

```sh
echo not a quick start
```

```text
[gone](gone.md) `src/gone.h`
```

## Quick start on one machine

```sh
echo first > made.txt
```

### With more ranks

```sh
cat made.txt && echo second
```

## Limits

```sh
exit 7
```

```cpp
#include "ulmus/base/check.h"
int twice(int x) { return checked(2 * x); }
```
"""
GOOD = {
    "README.md": GOOD_README,
    "docs/page.md": "# Page\n\n## The heading, of `it`\n\n## The heading of it\n",
    "CHANGELOG.md": "# Changes\n\n`src/ulmus/base/gone.h` is gone.\n",
    "tests/notes.md": "[gone](gone.md) is no document\n",
}


def check(files, *arguments):
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**SOURCES, **files}.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        return subprocess.run([sys.executable, CHECK, "--root", root, *arguments],
                              capture_output=True, text=True, check=False)


def faults(done, document):
    found = []
    for line in done.stderr.splitlines()[:-1]:
        path, number, rule = line.split(":")[:3]
        if path != document:
            raise AssertionError(line)
        found.append((int(number), rule.strip()))
    return found


class CheckDocsTest(unittest.TestCase):
    def test_every_fault_is_reported(self):
        done = check({"README.md": BAD_README, "docs/page.md": "# Page\n"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(faults(done, "README.md")), sorted(BAD))

    def test_examples_can_be_left_out(self):
        done = check({"README.md": BAD_README, "docs/page.md": "# Page\n"}, "--no-compile")
        self.assertEqual(sorted(faults(done, "README.md")),
                         sorted(fault for fault in BAD if fault[1] != "cpp"))

    def test_folder_readmes_are_documents(self):
        done = check({"src/ulmus/base/README.md": "# base\n\n`gone.h`\n"})
        self.assertEqual(faults(done, "src/ulmus/base/README.md"), [(3, "path")])

    def test_good_documents_pass(self):
        done = check(GOOD)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "check_docs: 4 files, no problem\n"))

    def test_quick_start_is_listed_and_run_in_order(self):
        listed = check(GOOD, "--list")
        self.assertEqual(listed.stdout.count("echo"), 2)
        self.assertNotIn("exit 7", listed.stdout)
        run = check(GOOD, "--run")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.splitlines()[-2:], ["first", "second"])

    def test_a_quick_start_that_fails_is_reported(self):
        readme = "# A\n\n## Quick start\n\n```sh\nfalse\necho on\n```\n"
        done = check({"README.md": readme}, "--run")
        self.assertEqual(done.returncode, 1)
        self.assertIn("README.md:5: quick-start: exit status 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
