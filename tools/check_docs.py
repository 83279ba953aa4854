#!/usr/bin/env python3
"""Checks that the documents say nothing that is not there.

    tools/check_docs.py [--root FOLDER] [--no-compile]   links, paths, C++ examples
    tools/check_docs.py --list                           the commands of the README's Quick start
    tools/check_docs.py --run                            runs them, in order

Documents are the Markdown files at the root, under docs/ and in the folders of src/ulmus. A link
must lead to a file, and to a heading of it where it names one. A path in `code` must exist: it is
looked for from the root, from src/, from src/ulmus/ and from the document. A fenced block marked
cpp must compile as a file of its own, a block marked sh under a heading "Quick start" must run.
(docs/configuration.md is compared with the program's own keys by a test of src/ulmus/train.)
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import GENERATED_FOLDERS, Tree, finish  # noqa: E402

DOCUMENT = re.compile(r"^(?:[^/]+\.md|docs/.*\.md|src/ulmus/(?:.+/)?README\.md)$")
# What changed in the past may name files that are gone.
HISTORY = {"CHANGELOG.md"}

FENCE = re.compile(r"^(?P<fence>```+|~~~+)[ \t]*(?P<language>[\w+-]*)[^\n]*\n"
                   r"(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
LINK_DEFINITION = re.compile(r"^\[[^\]\n]+\]:[ \t]*(\S+)", re.MULTILINE)
CODE = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+?)\1(?!`)")
HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

# A code span is a path when it looks like one of these.
PATH = re.compile(r"^(?:\./)?[\w.+-]+(?:/[\w.+-]+)*/?(?::\d+)?$")
SOURCE_NAME = re.compile(r"\.(?:h|cc|cu|cuh|md|py|sh|cmake)(?::\d+)?$")
TOP_FOLDERS = {"src", "tests", "docs", "tools", "configs", "cmake", "benchmarks", "examples", ".ci"}


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def line_at(text, position):
    return text.count("\n", 0, position) + 1


def anchors(text):
    """The fragments that the headings of a Markdown document define."""
    found = set()
    for match in HEADING.finditer(FENCE.sub(blank, text)):
        title = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", match[2])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        number = 1
        unique = slug
        while unique in found:
            unique = f"{slug}-{number}"
            number += 1
        found.add(unique)
    return found


def check_links(tree, path, prose):
    targets = [(m.start(), m[1]) for m in LINK.finditer(CODE.sub(blank, prose))]
    targets += [(m.start(), m[1]) for m in LINK_DEFINITION.finditer(prose)]
    for position, target in targets:
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, fragment = target.partition("#")
        line = line_at(prose, position)
        resolved = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if resolved.startswith("..") or not tree.exists(resolved):
            yield line, "link", f"{target} leads nowhere"
        elif fragment and resolved.endswith(".md") and \
                fragment not in anchors(tree.text(resolved)):
            yield line, "link", f"{resolved} has no heading #{fragment}"


def path_exists(tree, document, path):
    folder = os.path.dirname(document)
    places = ("", "src", "src/ulmus", folder)
    return any(tree.exists(os.path.normpath(os.path.join(place, path))) for place in places)


def check_paths(tree, path, prose, base_names, room_names):
    for match in CODE.finditer(prose):
        span = match[2].strip()
        if not PATH.match(span):
            continue
        plain = re.sub(r":\d+$", "", span)
        plain = plain[2:] if plain.startswith("./") else plain
        first = plain.split("/")[0]
        if first in GENERATED_FOLDERS:
            continue
        if "/" in plain and (first in TOP_FOLDERS or first in room_names or first == "ulmus"
                             or SOURCE_NAME.search(plain)):
            exists = path_exists(tree, path, plain)
        elif "/" not in plain and SOURCE_NAME.search(plain):
            exists = plain in base_names
        else:
            continue
        if not exists:
            yield line_at(prose, match.start()), "path", f"{span} does not exist"


def compile_block(root, source):
    """The compiler's first error about a C++ block, or None."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "block.cc")
        with open(file, "w", encoding="utf-8") as out:
            out.write(source)
        command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
                   "-Werror", "-I", os.path.join(root, "src"), file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return (errors or ["the compiler failed"])[0].replace(file, "block")


def check_blocks(tree, text):
    for match in FENCE.finditer(text):
        if match["language"] in ("cpp", "c++", "cc"):
            error = compile_block(tree.root, match["body"])
            if error:
                yield line_at(text, match.start()), "cpp", error


def quick_start_blocks(text):
    """(line, commands) of every sh block under a heading that starts with "Quick start"."""
    prose = FENCE.sub(blank, text)
    headings = [(m.start(), len(m[1]), m[2]) for m in HEADING.finditer(prose)]
    for match in FENCE.finditer(text):
        if match["language"] not in ("sh", "bash", "console"):
            continue
        level_left = 7
        for position, level, title in reversed(headings):
            if position > match.start() or level >= level_left:
                continue
            level_left = level
            if title.lower().startswith("quick start"):
                yield line_at(text, match.start()), match["body"]
                break


def check_document(tree, path, base_names, room_names, compile_examples):
    text = COMMENT.sub(blank, tree.text(path))
    prose = FENCE.sub(blank, text)
    yield from check_links(tree, path, prose)
    if path not in HISTORY:
        yield from check_paths(tree, path, prose, base_names, room_names)
    if compile_examples:
        yield from check_blocks(tree, text)


def run_quick_start(tree, only_list):
    for line, commands in quick_start_blocks(tree.text("README.md")):
        print(f"# README.md:{line}", flush=True)
        print(commands, end="", flush=True)
        if only_list:
            continue
        status = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=tree.root,
                                check=False).returncode
        if status != 0:
            print(f"README.md:{line}: quick-start: exit status {status}", file=sys.stderr)
            return 1
    return 0


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=here, help="the tree to check (default: this one)")
    parser.add_argument("--no-compile", action="store_true", help="leave the C++ examples out")
    parser.add_argument("--list", action="store_true", help="print the Quick start commands")
    parser.add_argument("--run", action="store_true", help="run the Quick start commands")
    arguments = parser.parse_args()
    tree = Tree(arguments.root)
    if arguments.list or arguments.run:
        return run_quick_start(tree, arguments.list)

    documents = [path for path in tree.files if DOCUMENT.match(path)]
    base_names = {os.path.basename(path) for path in tree.files}
    room_names = {path.split("/")[2] for path in tree.files
                  if path.startswith("src/ulmus/") and path.count("/") > 2}
    problems = []
    for path in documents:
        found = check_document(tree, path, base_names, room_names, not arguments.no_compile)
        problems += [(path, *problem) for problem in found]
    return finish("check_docs", problems, len(documents))


if __name__ == "__main__":
    sys.exit(main())
