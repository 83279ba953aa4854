"""Self-test of tools/check_layers.py: a bad tree with one violation of each kind, and a good one.

The expected list is exact, so a rule that went blind and a rule that barks at nothing both fail.
"""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(ROOT, "tools", "check_layers.py")

README = "# room\n\nWhat belongs here.\n"
HEAD = "#pragma once\n"


def write_tree(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def check(files):
    """The exit status and the set of (path, line, rule) reported for a tree of these files."""
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, files)
        done = subprocess.run([sys.executable, CHECK, "--root", root], capture_output=True,
                              text=True, check=False)
    found = set()
    for line in done.stderr.splitlines()[:-1]:
        path, number, rule = line.split(":")[:3]
        found.add((path, int(number), rule.strip()))
    return done.returncode, found


# Every arrow of the drawing, written out.
ARROWS = {
    "base": "",
    "tensor": "base",
    "device": "base tensor",
    "ops": "base tensor device",
    "comm": "base tensor device",
    "fused": "base tensor device ops comm",
    "nn": "base tensor device ops",
    "parallel": "base tensor device ops comm fused nn",
    "optim": "base tensor device ops comm",
    "data": "base tensor",
    "checkpoint": "base tensor device comm",
    "model": "base tensor device ops comm fused nn parallel checkpoint",
    "train": "base tensor device ops comm fused nn parallel optim data checkpoint model",
    "plan": "base tensor device ops comm fused nn parallel optim data checkpoint model train",
    "cli": "base tensor device ops comm fused nn parallel optim data checkpoint model train plan",
}

# Path and text -> line and rule of its only violation.
BAD = {
    # Arrows of the rooms.
    ("src/ulmus/base/up.cc", '#include "ulmus/tensor/shape.h"\n'): (1, "layer"),
    ("src/ulmus/tensor/up.cc", '#include "ulmus/device/device.h"\n'): (1, "layer"),
    ("src/ulmus/ops/up.cc", '#include "ulmus/nn/norm.h"\n'): (1, "layer"),
    ("src/ulmus/ops/side.cc", '#include "ulmus/comm/communicator.h"\n'): (1, "layer"),
    ("src/ulmus/nn/side.cc", '\n#include "ulmus/comm/communicator.h"\n'): (2, "layer"),
    ("src/ulmus/data/side.cc", '#include "ulmus/device/device.h"\n'): (1, "layer"),
    ("src/ulmus/checkpoint/side.cc", '#include "ulmus/ops/kernels.h"\n'): (1, "layer"),
    ("src/ulmus/model/up.cc", '#include "ulmus/train/loop.h"\n'): (1, "layer"),
    ("src/ulmus/train/up.cc", '#include "ulmus/cli/main.h"\n'): (1, "layer"),
    ("src/ulmus/nn/nowhere.cc", '#include "ulmus/helpers/x.h"\n'): (1, "layer"),
    ("src/ulmus/nn/CMakeLists.txt",
     "ulmus_room(nn\n  SOURCES a.cc\n  ROOMS ops comm\n  LIBRARIES fmt::fmt)\n"): (1, "layer"),
    # Inside ops.
    ("src/ulmus/ops/ref/side.cc", '#include "ulmus/ops/cpu/blas.h"\n'): (1, "ops-folder"),
    ("src/ulmus/ops/front.cc", '#include "ulmus/ops/cpu/blas.h"\n'): (1, "ops-folder"),
    ("src/ulmus/ops/cuda/device/out.cuh",
     HEAD + '#include "ulmus/base/check.h"\n'): (2, "ops-folder"),
    ("src/ulmus/nn/private.cc", '#include "ulmus/ops/cpu/blas.h"\n'): (1, "ops-folder"),
    # Tensor memory.
    ("src/ulmus/nn/raw_a.cc", "void f() {\n  g(x.data<float>());\n}\n"): (2, "raw-data"),
    ("src/ulmus/train/raw_b.cc", "auto p = view->data<T>();\n"): (1, "raw-data"),
    ("src/ulmus/ops/raw_c.cc", "auto p = x.raw_data();\n"): (1, "raw-data"),
    ("src/ulmus/model/raw_d.cc", "auto p = x.template data<T>();\n"): (1, "raw-data"),
    # Conditionals.
    ("src/ulmus/ops/if_a.cc", "#ifdef ULMUS_FAST\nint x;\n#endif\n"): (1, "conditional"),
    ("src/ulmus/ops/if_b.cc", "int y;\n# if 1\nint x;\n#endif\n"): (2, "conditional"),
    ("src/ulmus/base/check.h", HEAD + "#ifndef NDEBUG\n#endif\n"): (2, "conditional"),
    # Foreign and heavy headers.
    ("src/ulmus/comm/foreign_a.cc", "#include <mpi.h>\n"): (1, "foreign-header"),
    ("src/ulmus/ops/foreign_b.cc", "#include <cuda_runtime.h>\n"): (1, "foreign-header"),
    ("src/ulmus/parallel/foreign_c.cc", "#include <nccl.h>\n"): (1, "foreign-header"),
    ("src/ulmus/ops/ref/foreign_d.cc", "#include <cblas.h>\n"): (1, "foreign-header"),
    ("src/ulmus/comm/foreign_e.cc", "#include <nvshmem.h>\n"): (1, "foreign-header"),
    ("src/ulmus/data/heavy.h", HEAD + "#include <nlohmann/json.hpp>\n"): (2, "heavy-header"),
    ("src/ulmus/train/heavy.h", HEAD + "\n#include <toml++/toml.h>\n"): (3, "heavy-header"),
    ("src/ulmus/data/short.cc", '#include "short.h"\n'): (1, "include-path"),
    # Who may do what.
    ("src/ulmus/base/read.cc", 'auto x = std::getenv("X");\n'): (1, "environment"),
    ("src/ulmus/data/print_a.cc", "void f() { std::cout << 1; }\n"): (1, "terminal"),
    ("src/ulmus/data/print_b.cc", 'void f() { std::printf("x"); }\n'): (1, "terminal"),
    ("src/ulmus/data/print_c.cc", 'void f() { fprintf(stderr, "x"); }\n'): (1, "terminal"),
    ("src/ulmus/data/print_d.cc", "auto& e = std::cerr;\n"): (1, "terminal"),
    ("src/ulmus/data/end_a.cc", "void f() { std::exit(1); }\n"): (1, "ending"),
    ("src/ulmus/data/end_b.cc", "void f() { exit(1); }\n"): (1, "ending"),
    ("src/ulmus/data/random.cc", "std::mt19937 engine;\n"): (1, "random"),
    ("src/ulmus/data/sleep.cc", "void f() { std::this_thread::sleep_for(t); }\n"): (1, "sleep"),
    ("src/ulmus/data/using.cc", "using namespace std;\n"): (1, "using-namespace"),
    ("src/ulmus/data/plain_enum.h", HEAD + "enum Color { kRed };\n"): (2, "enum-class"),
    ("src/ulmus/data/no_pragma.h", "int f();\n"): (1, "pragma-once"),
    # Tests, names, files.
    ("tests/data/orphan_test.cc", "int x;\n"): (1, "mirror"),
    ("src/ulmus/data/version.cc", "int sort_v2();\n"): (1, "version-name"),
    ("src/ulmus/data/new_reader.cc", "int x;\n"): (1, "file-name"),
    ("src/ulmus/data/reader_v2.cc", "int x;\n"): (1, "file-name"),
    ("src/ulmus/data/todo.cc", "int x;\n// TODO: finish\n"): (2, "unfinished"),
    ("tools/fix.py", "# FIXME\n"): (1, "unfinished"),
    ("src/ulmus/data/long.cc", "int x;\n" * 801): (1, "file-length"),
    ("src/ulmus/data/wide.cc", "// " + "x" * 98 + "\n"): (1, "line-width"),
    ("src/ulmus/data/ascii.cc", "\n// caf\u00e9\n"): (2, "ascii"),
    ("src/ulmus/data/space.cc", "int x; \n"): (1, "trailing-space"),
    ("README.md", "text\nmore\t\n"): (2, "trailing-space"),
    ("src/ulmus/data/newline.cc", "int x;"): (1, "final-newline"),
    ("configs/big.toml", "# x\n" * 17000): (1, "file-size"),
    # Rooms.
    ("src/ulmus/comm/README.md", "line\n" * 16): (1, "room-readme"),
}
# Who makes the heavy headers above a fault.
INCLUDERS = {
    "src/ulmus/data/heavier.h": HEAD + '#include "ulmus/data/heavy.h"\n',
    "src/ulmus/cli/heavy.cc": '#include "ulmus/train/heavy.h"\n',
}
# Not a text of its own: what is missing, or a folder.
BAD_FOLDERS = {("src/ulmus/utils", 1, "room"), ("src/ulmus/plan/README.md", 1, "room-readme")}

GOOD = {
    "src/ulmus/base/check.h": HEAD + "#ifdef ULMUS_DCHECKS\n#else\n#endif\n",
    "src/ulmus/base/env.cc": 'auto x = std::getenv("X");\n',
    "src/ulmus/ops/kernels.h": HEAD + '#include "ulmus/tensor/shape.h"\n',
    "src/ulmus/ops/kernels.cc": '#include "ulmus/ops/kernels.h"\n\n#include <vector>\n',
    "src/ulmus/ops/cpu/blas.cc":
        '#include <cblas.h>\n\n#include "ulmus/ops/kernels.h"\nauto p = x.data<float>();\n',
    "src/ulmus/ops/ref/sum.cc": '#include "ulmus/ops/kernels.h"\nauto p = x.raw_data();\n',
    "src/ulmus/ops/cuda/device/sum.cuh":
        HEAD + '#include "ulmus/ops/cuda/device/warp.cuh"\n#if defined(__CUDA_ARCH__)\n#endif\n',
    "src/ulmus/comm/mpi/world.cc": "#include <mpi.h>\n",
    "src/ulmus/data/json_fields.h": HEAD + "#include <nlohmann/json.hpp>\n",
    "src/ulmus/data/manifest.cc": '#include "ulmus/data/json_fields.h"\n',
    "src/ulmus/data/words.cc":
        "// std::cout, getenv and #if in a comment, and TODO(#12): with a number\n"
        'auto a = "std::cout << printf(";\n'
        'auto b = R"(\n#if getenv\n)";\n'
        "const int million = 1'000'000;  // std::cerr\n"
        "auto c = std::snprintf(buffer, 8, x.data());\n"
        "auto d = error.exit_code();\n"
        "auto e = Family::deepseek_v3;\n"
        "auto f = words.data();\n",
    "src/ulmus/train/log.cc": "void f() { std::cerr << 1; }\n",
    "src/ulmus/cli/main.cc": '#include "ulmus/train/log.h"\nint main() { std::exit(1); }\n',
    "src/ulmus/model/CMakeLists.txt":
        "ulmus_room(model\n  SOURCES a.cc\n  ROOMS nn checkpoint  # and below\n  LIBRARIES x)\n",
    "tests/ops/kernels_test.cc": '#include <mpi.h>\nauto p = x.data<float>();\n',
    "tests/ops/kernels_errors_test.cc": "int x;\n",
    "tests/e2e/resume_test.cc": "int x;\n",
    "tools/corpus/novels.cc": "int x;\n",
    "tests/data/novels_test.cc": "int x;\n",
    "tests/data/excerpt.txt": "caf\u00e9 \n" * 20000,
    "docs/numerics.md": "a \u2264 b\n",
    "build/junk_v2.cc": "using namespace std; \n",
}
ROOMS_OF_GOOD = ("base", "ops", "comm", "data", "train", "cli", "model")


class CheckLayersTest(unittest.TestCase):
    def test_every_kind_of_violation_is_reported_and_nothing_else(self):
        files = {**INCLUDERS, **{path: text for path, text in BAD}}
        for room in ("base", "cli", "tensor", "device", "ops", "nn", "data", "checkpoint", "model",
                     "train", "parallel", "utils"):
            files[f"src/ulmus/{room}/README.md"] = README
        files["src/ulmus/plan/plan.cc"] = "int x;\n"
        expected = {(path, line, rule) for (path, _), (line, rule) in BAD.items()} | BAD_FOLDERS
        status, found = check(files)
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual(status, 1)

    def test_a_good_tree_passes(self):
        files = dict(GOOD)
        for room in ROOMS_OF_GOOD:
            files[f"src/ulmus/{room}/README.md"] = README
        self.assertEqual(check(files), (0, set()))

    def test_every_arrow_of_the_drawing_and_no_other(self):
        rooms = list(ARROWS)
        includes = "".join(f'#include "ulmus/{room}/x.h"\n' for room in rooms)
        files = {f"src/ulmus/{room}/README.md": README for room in rooms}
        files.update({f"src/ulmus/{room}/all.cc": includes for room in rooms})
        expected = {(f"src/ulmus/{room}/all.cc", rooms.index(other) + 1, "layer")
                    for room in rooms for other in rooms
                    if other != room and other not in ARROWS[room].split()}
        status, found = check(files)
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual(status, 1)

    def test_every_rule_has_a_violation_above(self):
        with open(CHECK, encoding="utf-8") as file:
            text = file.read()
        rules = {rule for _, rule in BAD.values()} | {rule for _, _, rule in BAD_FOLDERS}
        for rule in rules:
            self.assertIn(f'"{rule}"', text)
        named = set()
        for line in text.splitlines():
            words = line.split('"')
            starts = line.strip().startswith(("yield ", '("'))
            named.update(word for word in words[1:2] if starts and word.replace("-", "").isalpha())
        self.assertEqual(named - rules, set(), "a rule without a violation in this test")


if __name__ == "__main__":
    unittest.main()
