#!/usr/bin/env python3
"""Writes src/chat/jinja/unicode_tables.cpp: make_jinja_unicode.py > unicode_tables.cpp

The character properties of Python's str, as ranges. Run it with the Python whose Jinja2 the engine should match.
"""

import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(test):
    found = []
    for c in POINTS:
        if not test(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def case_ranges(convert):
    found = []
    for c in POINTS:
        to = convert(chr(c))
        if len(to) != 1 or ord(to) == c:
            continue
        delta = ord(to) - c
        last = found[-1] if found else None
        if last and last[3] == delta:
            step = c - last[1]
            if step in (1, 2) and (last[0] == last[1] or last[2] == step):
                last[1], last[2] = c, step
                continue
        found.append([c, c, 1, delta])
    return found


def specials(convert):
    return [(c, [ord(x) for x in convert(chr(c))]) for c in POINTS if len(convert(chr(c))) > 1]


def emit(name, kind, items):
    print(f"constexpr {kind} k{name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += f" {item},"
    print(line)
    print("};\n")


def braces(values):
    return "{" + ",".join(hex(v) if v > 9 else str(v) for v in values) + "}"


def main():
    print("// Made by tests/tools/make_jinja_unicode.py from Unicode " + unicodedata.unidata_version + "; do not edit.")
    print('#include <iterator>\n\n#include "chat/jinja/unicode.h"\n')
    print("// clang-format off\nnamespace tandem::jinja {\nnamespace {\n")
    tables = [
        ("Alpha", "alpha_ranges", ranges(str.isalpha)),
        ("Digit", "digit_ranges", ranges(str.isdecimal)),
        ("Unprintable", "unprintable_ranges", ranges(lambda c: not c.isprintable())),
    ]
    for name, _, items in tables:
        emit(name, "CodeRange", [braces(i) for i in items])
    cases = [
        ("ToUpper", "to_upper_ranges", case_ranges(str.upper)),
        ("ToLower", "to_lower_ranges", case_ranges(str.lower)),
    ]
    for name, _, items in cases:
        emit(name, "CaseRange", [braces(i) for i in items])
    special = [("UpperSpecial", "upper_specials", specials(str.upper))]
    for name, _, items in special:
        emit(name, "SpecialCase", ["{" + hex(c) + "," + braces(to) + "}" for c, to in items])
    print("}  // namespace\n")
    for group, kind in ((tables, "CodeRanges"), (cases, "CaseRanges"), (special, "SpecialCases")):
        for name, function, _ in group:
            print(f"{kind} {function}() {{ return {{k{name}, std::size(k{name})}}; }}")
    print("\n}  // namespace tandem::jinja\n// clang-format on")


if __name__ == "__main__":
    sys.exit(main())
