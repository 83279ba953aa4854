"""What the checks share: the files of the tree, C++ text without comments, and reports."""

import os
import re
import subprocess
import sys

# Made by builds and runs, at the root; never part of the project.
GENERATED_FOLDERS = {".git", "build", "runs", "corpus"}

CPP_SUFFIXES = (".h", ".cc", ".cu", ".cuh")


class Tree:
    """The project's files, as sorted paths relative to its root with forward slashes."""

    def __init__(self, root):
        self.root = root
        self.files = _git_files(root)
        if self.files is None:
            self.files = _walked_files(root)

    def text(self, path):
        """The file's text; undecodable bytes survive as surrogates."""
        with open(os.path.join(self.root, path), encoding="utf-8", errors="surrogateescape",
                  newline="") as file:
            return file.read()

    def size(self, path):
        return os.path.getsize(os.path.join(self.root, path))

    def exists(self, path):
        return os.path.exists(os.path.join(self.root, path))


def _git_files(root):
    """Tracked files and new ones that git does not ignore; None outside a checkout."""
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    names = {os.fsdecode(name) for name in listed.split(b"\0") if name}
    return sorted(name for name in names if os.path.isfile(os.path.join(root, name)))


def _walked_files(root):
    found = []
    for folder, folders, names in os.walk(root):
        skipped = {"__pycache__"} | (GENERATED_FOLDERS if folder == root else set())
        folders[:] = sorted(set(folders) - skipped)
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            found.append(path.replace(os.sep, "/"))
    return sorted(found)


_CPP_TOKEN = re.compile(
    r'(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))'
    r'|(?P<raw>R"(?P<mark>[^()\\ \t\n]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')",
    re.DOTALL)
_INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[^\n]*$', re.MULTILINE)


def blank_cpp(text):
    """C++ text with comments and the insides of literals replaced by blanks.

    Lines keep their numbers and includes keep their names.
    """
    kept = {match.start(): match.end() for match in _INCLUDE_LINE.finditer(text)}
    out = []
    position = 0
    while True:
        match = _CPP_TOKEN.search(text, position)
        if match is None:
            out.append(text[position:])
            return "".join(out)
        line_begin = text.rfind("\n", 0, match.start()) + 1
        out.append(text[position:match.start()])
        if match["comment"] is None and line_begin in kept:
            out.append(match[0])
        else:
            out.append(re.sub(r"[^\n]", " ", match[0]))
        position = match.end()


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def finish(name, problems, num_checked):
    """Prints every problem as path:line: rule: message; returns the exit status."""
    for problem in sorted(set(problems)):
        path, line, rule, message = problem
        print(f"{path}:{line}: {rule}: {message}", file=sys.stderr)
    verdict = f"{len(set(problems))} problems" if problems else "no problem"
    print(f"{name}: {num_checked} files, {verdict}", file=sys.stderr)
    return 1 if problems else 0
