#!/usr/bin/env python3
"""Lists functions of C++ sources whose bodies have more lines than the limit: long_functions.py LIMIT FILE...

Prints "file:line: lines name" for each, longest first, and nothing for the rest. A body extends from its opening brace
to its closing one; lambdas belong to the enclosing function. The sources are read as clang-format leaves them, without
a compiler: braces are matched, and a brace opens a function if it follows a parameter list outside any other body.
"""
import re
import sys
from pathlib import Path

# Braces in comments, strings (including raw ones) and character literals do not count: these are blanked out.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b")
# A parameter list, and what may come between it and the body: const, noexcept, -> Type, an initializer list.
FUNCTION = re.compile(r"([~\w:]+|operator\s*\S+)\s*\((?:[^;]|\n)*\)[^;={}]*$")


def blanked(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def is_function(head: str) -> bool:
    """Whether the text between the last statement and a brace begins a function."""
    head = head.strip()
    return bool(FUNCTION.search(head)) and not (SCOPE.match(head) and "(" not in head)


def name_of(head: str) -> str:
    """The function's name; Suite.Name for a test."""
    test = re.search(r"\bTEST(?:_[FP])?\((\w+),\s*(\w+)\)", head)
    return f"{test.group(1)}.{test.group(2)}" if test else FUNCTION.search(head.strip()).group(1)


def functions(text: str) -> list[tuple[int, int, str]]:
    """(first line, lines of the body, name) of every function."""
    text = PREPROCESSOR.sub(blanked, NOISE.sub(blanked, text))
    found = []
    stack: list[str] = []  # "scope", "function", or "other": a block, a lambda, an initializer.
    head_begin = 0
    start = (0, "")
    for match in re.finditer(r"[{};]", text):
        symbol, at = match.group(0), match.start()
        if symbol == "{":
            head = text[head_begin:at]
            inside = "function" in stack or "other" in stack
            if not inside and is_function(head):
                # An initializer list's braces, Type member{value}, are not the body.
                if re.search(r"[:,]\s*\w+$", head.rstrip()) and ")" in head:
                    stack.append("initializer")
                    continue
                stack.append("function")
                start = (at, name_of(head))
            elif not inside and SCOPE.search(head) and "=" not in head.split("(")[0]:
                stack.append("scope")
            else:
                stack.append("other")
            head_begin = at + 1
        elif symbol == "}":
            kind = stack.pop() if stack else "other"
            if kind == "initializer":
                continue
            if kind == "function":
                line = text.count("\n", 0, start[0]) + 1
                found.append((line, text.count("\n", start[0], at), start[1]))
            head_begin = at + 1
        else:
            head_begin = at + 1
    return found


def main() -> None:
    limit = int(sys.argv[1])
    rows = []
    for name in sys.argv[2:]:
        for line, lines, function in functions(Path(name).read_text(encoding="utf-8")):
            if lines > limit:
                rows.append((lines, f"{name}:{line}: {lines} {function}"))
    for _, row in sorted(rows, key=lambda item: (-item[0], item[1])):
        print(row)


if __name__ == "__main__":
    main()
