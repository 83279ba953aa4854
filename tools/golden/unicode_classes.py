"""Writes src/ulmus/data/unicode_classes_table.cc: the ranges of Unicode 16.0 letters and numbers.

Needs the PyPI package unicodedata2 at version 16.0.0:
    pip install unicodedata2==16.0.0
    python3 tools/golden/unicode_classes.py > src/ulmus/data/unicode_classes_table.cc
"""

import unicodedata2


def ranges(major):
    found = []
    for code_point in range(0x110000):
        if unicodedata2.category(chr(code_point))[0] != major:
            continue
        if found and found[-1][1] == code_point - 1:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point])
    return found


def table(name, major):
    cells = ["{0x%X, 0x%X}" % (first, last) for first, last in ranges(major)]
    lines = []
    line = "   "
    for cell in cells:
        if len(line) + len(cell) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + cell + ","
    lines.append(line)
    return "const CodePointRange %s[] = {\n%s\n};" % (name, "\n".join(lines))


def main():
    assert unicodedata2.unidata_version == "16.0.0"
    letters, numbers = ranges("L"), ranges("N")
    print('#include "ulmus/data/unicode_classes.h"\n')
    print("// Written by tools/golden/unicode_classes.py from Unicode 16.0. Do not edit.\n")
    print("// clang-format off\n")
    print("namespace ulmus::data {\n\nnamespace {\n")
    print(table("kLetters", "L") + "\n")
    print(table("kNumbers", "N") + "\n")
    print("}  // namespace\n")
    print("std::span<const CodePointRange> letter_ranges() { return kLetters; }")
    print("std::span<const CodePointRange> number_ranges() { return kNumbers; }\n")
    print("}  // namespace ulmus::data")


main()
