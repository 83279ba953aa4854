#!/usr/bin/env python3
"""Checks the rules of the house that need no compiler.

    tools/check_layers.py [--root FOLDER]

Prints every violation as path:line: rule: message and returns 1 if there is one. The rules and
their reasons are in CONTRIBUTING.md; the drawing of the rooms is in docs/architecture.md.
"""

import argparse
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import CPP_SUFFIXES, Tree, blank_cpp, finish, line_of  # noqa: E402

# Which rooms each room may include, besides itself.
_BASE = {"base"}
_TENSOR = _BASE | {"tensor"}
_DEVICE = _TENSOR | {"device"}
_OPS = _DEVICE | {"ops"}
_FUSED = _OPS | {"comm", "fused"}
_PARALLEL = _FUSED | {"nn", "parallel"}
_MODEL = _PARALLEL | {"checkpoint", "model"}
_TRAIN = _MODEL | {"optim", "data", "train"}
ROOMS = {
    "base": set(),
    "tensor": _BASE,
    "device": _TENSOR,
    "ops": _DEVICE,
    "comm": _DEVICE,
    "fused": _OPS | {"comm"},
    "nn": _OPS,
    "parallel": _FUSED | {"nn"},
    "optim": _OPS | {"comm"},
    "data": _TENSOR,
    "checkpoint": _DEVICE | {"comm"},
    "model": _PARALLEL | {"checkpoint"},
    "train": _MODEL | {"optim", "data"},
    "plan": _TRAIN,
    "cli": _TRAIN | {"plan"},
}

# Inside ops: which of its folders a folder may include, besides itself ("" is ops/ proper).
OPS_FOLDERS = {
    "": set(),
    "ref": {""},
    "cpu": {"", "ref"},
    "cuda": {"", "ref", "cuda/device"},
    "cuda/device": None,  # nothing from outside itself
    "no_cuda": {""},
}

# Only these may dereference tensor memory (design, law 4).
RAW_DATA_FOLDERS = ("tensor/", "device/", "ops/ref/", "ops/cpu/", "ops/cuda/", "fused/", "comm/")
RAW_DATA = re.compile(r"(?:\.|->)\s*(?:template\s+)?(?:data\s*<|raw_data\s*[<(])")

# Foreign headers and the folders that may include them.
_CUDA_FOLDERS = ("ops/cuda/", "device/cuda/", "fused/cuda/", "comm/nccl/", "comm/nvshmem/")
FOREIGN_HEADERS = (
    (re.compile(r"mpi(?:-ext)?\.h$"), ("comm/mpi/",)),
    (re.compile(r"nccl.*\.h$"), ("comm/nccl/",)),
    (re.compile(r"nvshmem.*\.h$"), ("comm/nvshmem/", "fused/cuda/")),
    (re.compile(r"(?:cuda|cublas|cudnn|cutlass|cute/|cub/|cooperative_groups|nvtx|curand).*"),
     _CUDA_FOLDERS),
    (re.compile(r"(?:openblas/)?(?:cblas|f77blas|lapacke|openblas_config)\.h$"), ("ops/cpu/",)),
)
# Slow to compile: every includer pays. A header may include one if only source files of its own
# folder include it.
HEAVY_HEADERS = re.compile(r"(?:nlohmann/json\.hpp|toml\+\+/.*|toml\.hpp|CLI/.*)$")

# Names that only the program's edge may use.
TERMINAL = re.compile(
    r"\bstd::(?:cout|cerr|clog|cin)\b"
    r"|(?<![\w.>:])(?:std::|::)?v?f?printf\s*\(|\bfmt::print(?:ln)?\s*\("
    r"|(?<![\w.>:])(?:std::|::)?(?:f?puts|putchar|perror)\s*\(")
ENDING = re.compile(
    r"(?<![\w.>:])(?:std::|::)?(?:exit|_exit|_Exit|quick_exit)\s*\("
    r"|\bstd::(?:abort|terminate)\s*\(")

FORBIDDEN_IN_SRC = (
    ("environment", re.compile(r"\b(?:secure_)?getenv\b|\b(?:setenv|putenv)\s*\("),
     "the environment is read in base/env.cc only", ("base/env.cc",)),
    ("terminal", TERMINAL, "only cli/ and train/ talk to the terminal", ("cli/", "train/")),
    ("ending", ENDING, "only cli/ and train/ end the program; throw an Error",
     ("cli/", "train/")),
    ("random",
     re.compile(r"\bstd::(?:random_device|mt19937\w*|default_random_engine)\b|\bs?rand\(\)"),
     "all draws come from base/philox.h with a key", ()),
    ("sleep", re.compile(r"\bsleep_(?:for|until)\s*\(|\b(?:u|nano)?sleep\s*\("),
     "nobody sleeps to synchronise", ("cli/", "train/")),
    ("raw-data", RAW_DATA,
     "tensor memory is dereferenced in kernels only; use an operation, a copy or read_to_host",
     RAW_DATA_FOLDERS),
    ("using-namespace", re.compile(r"\busing\s+namespace\s+(?!std::(?:\w+_)?literals\b)"),
     "name what is used", ()),
    ("enum-class", re.compile(r"\benum\s+(?!class\b|struct\b)[\w:{]"), "enum class", ()),
)

CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b[ \t]*(.*)$", re.MULTILINE)
VERSIONED_NAME = re.compile(r"\b[A-Za-z]\w*_v[0-9]+\b")
# Names of published model families and instruction sets, which have versions of their own.
VERSIONED_NAMES_ALLOWED = {"deepseek_v3", "deepseek_v2", "x86_64_v3", "x86_64_v4"}
UNFINISHED = re.compile(r"\bTODO\b(?!\(#[0-9]+\):)|\b(?:FIXME|XXX)\b")
BAD_FILE_NAME = re.compile(r"(?:^|/)(?:new|old)_[^/]*$|_(?:v[0-9]+|new|old|tmp|copy)\.[^/.]+$")

CODE_SUFFIXES = CPP_SUFFIXES + (".py", ".sh", ".cmake", "CMakeLists.txt")
CODE_FILES = {".ci/run", "tools/hooks/pre-commit"}
BINARY_SUFFIXES = (".bin", ".png", ".gz", ".xz", ".safetensors", ".npy", ".tokens")
MAX_LINES = 800
MAX_COLUMNS = 100
MAX_BYTES = 64 * 1024
LARGE_FILE_FOLDERS = ("tests/golden/", "tests/data/", "docs/results/")
FOREIGN_TEXT_FOLDERS = ("tests/golden/", "tests/data/")  # material of tests, kept as it is
MAX_README_LINES = 15
UNMIRRORED_TESTS = ("tests/e2e/", "tests/support/", "tests/golden/", "tests/tools/",
                    "tests/compile_fail/")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)
CMAKE_ROOM = re.compile(r"ulmus_room\(\s*(\w+)([^)]*)\)", re.DOTALL)


def is_code(path):
    return path.endswith(CODE_SUFFIXES) or path in CODE_FILES


def check_include(path, line, quote, target):
    """One include of a file under src/ulmus; `path` is relative to that folder."""
    room = path.split("/")[0]
    for pattern, folders in FOREIGN_HEADERS:
        if pattern.match(target) and not path.startswith(folders):
            yield line, "foreign-header", f"<{target}> belongs in {' '.join(folders)}"
    if not target.startswith("ulmus/"):
        if quote == '"':
            yield line, "include-path", f'"{target}": write it as "ulmus/room/file.h"'
        return
    to_room = target.split("/")[1]
    if to_room not in ROOMS:
        yield line, "layer", f"{target}: there is no room {to_room}"
    elif room in ROOMS and to_room != room and to_room not in ROOMS[room]:
        allowed = " ".join(sorted(ROOMS[room])) or "nothing"
        yield line, "layer", f"{room} may not include {target}; it may include {allowed}"
    else:
        yield from check_ops_folder(path, line, target)


def check_heavy_headers(tree):
    """Headers that include a heavy one, where another header or folder includes them."""
    heavy = {}
    includers = {}
    for path in tree.files:
        if not path.startswith("src/ulmus/") or not path.endswith(CPP_SUFFIXES):
            continue
        code = blank_cpp(tree.text(path))
        for match in INCLUDE.finditer(code):
            if HEAVY_HEADERS.match(match[2]) and path.endswith((".h", ".cuh")):
                heavy[path] = (line_of(code, match.start()), match[2])
            includers.setdefault("src/" + match[2], []).append(path)
    for path, (line, target) in sorted(heavy.items()):
        for includer in includers.get(path, []):
            if includer.endswith((".h", ".cuh")) or \
                    os.path.dirname(includer) != os.path.dirname(path):
                yield path, line, "heavy-header", f"<{target}> reaches {includer}"


def ops_folder(path):
    inside = os.path.dirname(path)[len("ops"):].lstrip("/")
    return "cuda/device" if inside.startswith("cuda/device") else inside.split("/")[0]


def check_ops_folder(path, line, target):
    if not path.startswith("ops/"):
        if re.match(r"ulmus/ops/(?:cpu|cuda)/", target) and not path.startswith(("fused/", "cli/")):
            yield line, "ops-folder", f"{target} is private to its back end; use the front door"
        return
    own = ops_folder(path)
    allowed = OPS_FOLDERS.get(own, set())
    if allowed is None:
        if not target.startswith("ulmus/ops/cuda/device/"):
            yield line, "ops-folder", f"ops/{own} includes nothing from outside itself: {target}"
        return
    if target.startswith("ulmus/ops/"):
        to = ops_folder(target[len("ulmus/"):])
        if to != own and to not in allowed:
            yield line, "ops-folder", f"ops/{own} may not include {target}"


def check_conditionals(path, code):
    for match in CONDITIONAL.finditer(code):
        if path == "base/check.h" and match[1].strip() == "ULMUS_DCHECKS":
            continue
        if path.startswith("ops/cuda/device/") and re.search(r"__CUDA_ARCH__|ULMUS_", match[1]):
            continue
        yield line_of(code, match.start()), "conditional", \
            "no #if around logic; CMake chooses which file is compiled"


def check_source(path, text):
    """A C++ file under src/ulmus."""
    code = blank_cpp(text)
    for match in INCLUDE.finditer(code):
        yield from check_include(path, line_of(code, match.start()), match[1], match[2])
    yield from check_conditionals(path, code)
    for rule, pattern, message, exempt in FORBIDDEN_IN_SRC:
        if exempt and path.startswith(exempt):
            continue
        for match in pattern.finditer(code):
            yield line_of(code, match.start()), rule, f"{match[0].strip()}: {message}"
    if path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", code, re.MULTILINE):
        yield 1, "pragma-once", "a header starts with #pragma once"


def check_cmake_rooms(path, text):
    """ROOMS of ulmus_room(...): the linker must not know arrows that includes may not have."""
    for match in CMAKE_ROOM.finditer(re.sub(r"#[^\n]*", "", text)):
        room, words = match[1], match[2].split()
        if room not in ROOMS or "ROOMS" not in words:
            continue
        for word in words[words.index("ROOMS") + 1:]:
            if word in ("SOURCES", "LIBRARIES"):
                break
            if word not in ROOMS[room]:
                yield line_of(text, match.start()), "layer", f"{room} may not link {word}"


def check_cpp_names(text):
    for match in VERSIONED_NAME.finditer(blank_cpp(text)):
        if match[0] not in VERSIONED_NAMES_ALLOWED:
            yield line_of(text, match.start()), "version-name", f"{match[0]}: git knows versions"


def check_text(path, text):
    """Any text file of ours."""
    if is_code(path):
        num_lines = text.count("\n") + (not text.endswith("\n"))
        if num_lines > MAX_LINES:
            yield 1, "file-length", f"{num_lines} lines, the ceiling is {MAX_LINES}"
        if not path.endswith(("/check_layers.py", "/check_layers_test.py")):  # they spell them
            for match in UNFINISHED.finditer(text):
                yield line_of(text, match.start()), "unfinished", \
                    "finish it, or TODO(#123): with an issue number"
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield number, "trailing-space", "trailing space or carriage return"
        if is_code(path) and len(line) > MAX_COLUMNS:
            yield number, "line-width", f"{len(line)} columns, the limit is {MAX_COLUMNS}"
        if not line.isascii() and not path.startswith("docs/"):
            yield number, "ascii", "sources are ASCII"
    if text and not text.endswith("\n"):
        yield line_of(text, len(text)), "final-newline", "the last line has no end"


def mirrored(tree_files, path):
    """tests/a/b_test.cc mirrors src/ulmus/a/b.h or .cc; b_aspect_test.cc may share b's.

    A test of a program under tools/ lies with the room whose data the program makes.
    """
    stem = path[len("tests/"):-len("_test.cc")]
    if any(file.startswith("tools/") and file.endswith(f"/{os.path.basename(stem)}.cc")
           for file in tree_files):
        return True
    while True:
        for suffix in CPP_SUFFIXES:
            if f"src/ulmus/{stem}{suffix}" in tree_files:
                return True
        folder, name = os.path.split(stem)
        if "_" not in name:
            return False
        stem = os.path.join(folder, name.rsplit("_", 1)[0])


def check_rooms(tree):
    rooms = sorted({path.split("/")[2] for path in tree.files
                    if path.startswith("src/ulmus/") and path.count("/") > 2})
    for room in rooms:
        if room not in ROOMS:
            yield f"src/ulmus/{room}", 1, "room", "not in the drawing of docs/architecture.md"
        readme = f"src/ulmus/{room}/README.md"
        if not tree.exists(readme):
            yield readme, 1, "room-readme", \
                "missing: what belongs here, what does not, where to start"


def check_file(tree, path, files):
    if BAD_FILE_NAME.search(path):
        yield 1, "file-name", "no version, age or copy in a file's name"
    if tree.size(path) > MAX_BYTES and not path.startswith(LARGE_FILE_FOLDERS):
        yield 1, "file-size", f"{tree.size(path)} bytes, the limit is {MAX_BYTES}"
    if path.startswith("tests/") and path.endswith("_test.cc") and \
            not path.startswith(UNMIRRORED_TESTS) and not mirrored(files, path):
        yield 1, "mirror", "no file of src/ulmus has this path and name"
    if path.endswith(BINARY_SUFFIXES):
        return
    if path.startswith(FOREIGN_TEXT_FOLDERS) and not is_code(path):
        return
    text = tree.text(path)
    yield from check_text(path, text)
    if path.endswith(CPP_SUFFIXES):
        yield from check_cpp_names(text)
        if path.startswith("src/ulmus/"):
            yield from check_source(path[len("src/ulmus/"):], text)
    if path.endswith("CMakeLists.txt"):
        yield from check_cmake_rooms(path, text)
    if path.startswith("src/ulmus/") and path.endswith("/README.md"):
        num_lines = text.count("\n")
        if num_lines > MAX_README_LINES:
            yield 1, "room-readme", f"{num_lines} lines, the limit is {MAX_README_LINES}"


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=here, help="the tree to check (default: this one)")
    tree = Tree(parser.parse_args().root)
    files = set(tree.files)
    problems = [*check_rooms(tree), *check_heavy_headers(tree)]
    for path in tree.files:
        problems += [(path, *problem) for problem in check_file(tree, path, files)]
    return finish("check_layers", problems, len(tree.files))


if __name__ == "__main__":
    sys.exit(main())
